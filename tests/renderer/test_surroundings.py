"""What surrounds a scene by the user's word: pictures, a clear sky, nothing; turned and dimmed without compiling anything."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine import events, open_device
from renderer.app import cli
from renderer.pipeline.session import Session
from renderer.scene.environment_tables import solid_angles
from renderer.scene.framing import DEFAULT_VIEW
from renderer.scene.gltf_write import encode, not_kept
from renderer.scene.images import ImageError, write_image
from renderer.scene.importers import load
from renderer.scene.model import Environment, Light, Material, Scene, Sky
from renderer.scene.sky import AZIMUTH, RADIANCE, clear_sky, picture_of, preetham
from renderer.scene.surroundings import NOTHING, surrounded
from tests.renderer.helpers.worlds import grey, icosphere, look_at, scene_of


def ball() -> Scene:
    return scene_of((icosphere(2), grey(0.6)), camera=look_at((0, 0, 4), (0, 0, 0), 0.8))


def picture() -> np.ndarray:
    random = np.random.default_rng(3)
    return random.uniform(0, 2, (4, 8, 3)).astype(np.float32)


# ---- the sky ----


@pytest.mark.parametrize("said", [Sky(), Sky(3.0), Sky(89.0, 2.0), Sky(15.0, 9.0)])
def test_white_paper_on_level_ground_is_white_under_the_sky(said: Sky) -> None:
    sky = clear_sky(said).astype(float)
    height, width = sky.shape[:2]
    up = np.cos((np.arange(height) + 0.5) * math.pi / height)
    irradiance = (sky.sum(1) * (np.maximum(up, 0) * solid_angles(height, width))[:, None]).sum(0)
    np.testing.assert_allclose(irradiance / math.pi, [RADIANCE] * 3, rtol=0.01)
    assert np.isfinite(sky).all() and (sky > 0).all()


def brightest(sky: Sky) -> np.ndarray:
    """Towards the brightest texel of a sky."""
    image = clear_sky(sky).sum(2)
    row, column = np.unravel_index(image.argmax(), image.shape)
    theta, phi = (row + 0.5) * math.pi / image.shape[0], ((column + 0.5) / image.shape[1] - 0.5) * 2 * math.pi
    return np.array([math.sin(theta) * math.cos(phi), math.cos(theta), math.sin(theta) * math.sin(phi)])


@pytest.mark.parametrize("elevation", [6.0, 20.0, 45.0, 80.0])
@pytest.mark.parametrize("turbidity", [2.0, 6.0])
def test_the_sun_stands_as_high_as_is_said(elevation: float, turbidity: float) -> None:
    height = math.radians(elevation)
    sun = np.array([math.cos(height) * math.cos(AZIMUTH), math.sin(height), math.cos(height) * math.sin(AZIMUTH)])
    assert brightest(Sky(elevation, turbidity)) @ sun > math.cos(math.radians(2.5))


def test_the_haze_takes_the_blue_out_of_the_sky() -> None:
    clear, hazy = (clear_sky(Sky(40.0, turbidity))[20].mean(0) for turbidity in (2.0, 8.0))
    assert clear[2] / clear[0] > 1.2 * hazy[2] / hazy[0]


def test_the_sun_stands_on_the_side_of_the_camera_and_to_its_left() -> None:
    sun = brightest(Sky())
    back = np.array(DEFAULT_VIEW) / np.linalg.norm(DEFAULT_VIEW)
    right = np.cross([0, 1, 0], back)
    assert sun @ back > 0.3 and sun @ right < -0.3 and 0.5 < sun[1] < 0.9


def test_the_sky_is_blue_away_from_the_sun_and_paler_at_the_horizon() -> None:
    """At the zenith the formula gives the zenith's own values: those of the paper, appendix A.2, for a turbidity of 2.6."""
    zenith, horizon = (preetham(np.array([up]), np.array([g]), 0.8, 2.6)[0] for up, g in ((1.0, 0.8), (0.05, 1.6)))
    assert zenith[2] > 1.5 * zenith[0] and horizon[2] / horizon[0] < zenith[2] / zenith[0]
    chi = (4 / 9 - 2.6 / 120) * (math.pi - 1.6)
    luminance = (4.0453 * 2.6 - 4.971) * math.tan(chi) - 0.2155 * 2.6 + 2.4192
    assert zenith @ [0.2126, 0.7152, 0.0722] == pytest.approx(luminance, rel=2e-3)


# ---- choosing ----


def test_each_word_gives_its_surroundings(tmp_path: Path) -> None:
    scene = replace(ball(), environment=Environment((3.0, 3.0, 3.0)))
    assert surrounded(scene, None) is scene
    lamp = Light("lamp", "point", np.eye(4), 0)
    assert surrounded(replace(scene, environment=None, lights=[lamp]), None).environment is None
    assert surrounded(scene, "none").environment == Environment((0.0, 0.0, 0.0))
    sky = surrounded(scene, "sky").environment
    assert sky == Environment(sky=Sky()) and picture_of(sky) is clear_sky(Sky())
    for ending in ("hdr", "exr"):
        write_image(tmp_path / f"a.{ending}", picture())
        given = surrounded(scene, str(tmp_path / f"a.{ending}")).environment
        assert given is not None and given.image is not None and given.source == tmp_path / f"a.{ending}"
        np.testing.assert_allclose(given.image, picture(), rtol=0.01, atol=0.01)


def words(scene: Scene) -> tuple[Scene, list[str]]:
    """The scene surrounded without a word, and what was said."""
    told: list[str] = []
    end = events.subscribe(lambda event: told.append(event.fields["message"]), {"warning"})
    scene = surrounded(scene, None)
    end()
    return scene, told


def test_a_dark_scene_is_under_a_clear_sky_which_is_said_once() -> None:
    """C25."""
    scene, told = words(ball())
    assert scene.environment == Environment(sky=Sky())
    assert told == [NOTHING]
    session = Session(scene, width=16, height=16, backend="cpu", threads=1, spp=4)
    session.frame()
    assert session.mean().mean() > 0.05


def test_white_things_and_mirrors_are_seen_under_the_sky() -> None:
    """In light that is the same from everywhere neither is: here it is lit from the left and above."""
    for material in (grey(1.0), Material(metallic=1.0, roughness=0.2)):
        scene = surrounded(scene_of((icosphere(3), material), camera=look_at((0, 0, 4), (0, 0, 0), 0.8)), None)
        session = Session(scene, width=48, height=48, backend="cpu", threads=1, spp=64)
        session.frame()
        seen = session.mean().mean(2)[14:34, 14:34]
        assert seen.max() > 2 * seen.min() > 0


def test_without_surroundings_a_scene_without_lights_is_black_everywhere() -> None:
    """C25."""
    session = Session(surrounded(ball(), "none"), width=16, height=16, backend="cpu", threads=1, spp=4)
    session.frame()
    assert not session.mean().any() and not session.rgba()[..., :3].any()


@pytest.mark.parametrize("ending", ["hdr", "exr"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_picture_that_is_cut_off_is_one_line_that_names_it(tmp_path: Path, ending: str, share: float) -> None:
    path = tmp_path / f"sky.{ending}"
    write_image(path, picture())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ImageError, match=r"sky\.\w+: cannot be read: .*; the file may be damaged") as told:
        surrounded(ball(), str(path))
    assert "\n" not in str(told.value)


def test_a_picture_of_surroundings_is_not_saved_and_that_is_said(tmp_path: Path) -> None:
    scene = replace(ball(), environment=Environment(image=picture()))
    assert not_kept(scene) == ["surroundings from a picture are not kept"]
    (tmp_path / "saved.glb").write_bytes(encode(scene))
    again = load(tmp_path / "saved.glb")
    assert again.environment is None and not again.warnings


@pytest.mark.parametrize("sky", [Sky(), Sky(12.5, 7.25)])
def test_a_sky_is_saved_with_the_scene(sky: Sky, tmp_path: Path) -> None:
    scene = replace(ball(), environment=Environment((1.0, 0.5, 0.25), 2.0, 30.0, sky=sky))
    assert not not_kept(scene)
    (tmp_path / "saved.glb").write_bytes(encode(scene))
    assert load(tmp_path / "saved.glb").environment == scene.environment


def test_surroundings_are_equal_where_their_numbers_are_and_their_picture_is_the_same() -> None:
    one, other = picture(), picture()
    assert Environment(image=one) == Environment(image=one) and hash(Environment(image=one)) == hash(Environment(image=one))
    assert Environment(image=one) != Environment(image=other) and Environment(image=one) != Environment(image=one, turn=1.0)
    assert Environment((1.0, 2.0, 3.0)) == Environment((1.0, 2.0, 3.0)) and Environment() != 3
    assert Environment(sky=Sky(10.0)) == Environment(sky=Sky(10.0)) != Environment(sky=Sky(11.0))


@pytest.mark.parametrize("command", ["bench", "render", "view"])
def test_the_option_is_there(command: str, tmp_path: Path) -> None:
    given = ["-o", str(tmp_path / "a.png")] if command == "render" else []
    assert cli.parser().parse_args([command, "a.gltf", "--env", "sky", *given]).env == "sky"
    assert cli.parser().parse_args([command, "a.gltf", *given]).env is None


def test_a_picture_that_is_not_there_ends_the_command_with_one_line(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.png"
    command = ["render", str(root / "scenes/cornell.gltf"), "--env", str(tmp_path / "gone.hdr"), "-o", str(out), "--quiet"]
    assert cli.main([*command, "--backend", "cpu"]) == 2
    assert capsys.readouterr().err.strip().endswith("gone.hdr: cannot be read: no such file or directory; give the path of a picture")
    assert not out.exists()


def test_the_hand_written_shaders_refuse_a_picture(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", str(root / "scenes/cornell.gltf"), "--static", "--env", "sky", "--quiet"]) == 2
    assert "--env sky: the hand-written shaders draw no pictures of surroundings" in capsys.readouterr().err


# ---- while frames are running ----


def drawn(session: Session) -> np.ndarray:
    session.reset()
    session.frame()
    return session.mean().copy()


def test_turning_and_dimming_a_picture_compiles_nothing_and_is_as_if_the_scene_said_so() -> None:
    device = open_device("cpu", threads=1)
    shown = picture()
    said = replace(ball(), environment=Environment((0.5, 1.0, 1.5), 1.0, 10.0, shown))
    session = Session(said, width=16, height=16, spp=4, device=device)
    session.frame()
    compiles, plain = session.counters.compiles, session.mean().copy()
    texels = session._data.environment.texels  # type: ignore[union-attr]
    turned = session.scene.environment = Environment((0.5, 1.0, 1.5), 0.5, 90.0, shown)
    assert session.update_environment() and session.samples == 0, "the picture begins anew"
    assert session._data.environment.texels is texels, "and is not uploaded again"  # type: ignore[union-attr]
    changed = drawn(session)
    other = Session(replace(said, environment=turned), width=16, height=16, spp=4, device=device)
    np.testing.assert_allclose(changed, drawn(other), rtol=1e-4, atol=1e-6)
    assert np.abs(changed - plain / 2).max() > 0.01
    session.scene.environment = Environment((0.5, 1.0, 1.5), 1.0, 10.0, shown)
    assert session.update_environment()
    np.testing.assert_array_equal(drawn(session), plain)
    assert session.counters.compiles == compiles


def test_another_picture_needs_no_other_kernels_and_a_sky_of_one_colour_does() -> None:
    scene = replace(ball(), environment=Environment(image=picture()))
    session = Session(scene, width=16, height=16, spp=4, backend="cpu", threads=1)
    session.frame()
    compiles = session.counters.compiles
    session.scene.environment = Environment(image=np.ones((16, 32, 3), np.float32))
    assert session.update_environment()
    np.testing.assert_allclose(drawn(session)[0], np.ones((16, 3)), rtol=1e-5)
    session.scene.environment = Environment(sky=Sky(60.0))
    assert session.update_environment() and drawn(session).std() > 0.01
    assert session.counters.compiles == compiles
    session.scene.environment = Environment((1.0, 1.0, 1.0))
    assert not session.update_environment()
