#version 430

// One frame: each lane traces the paths of one pixel, adds them to the film and draws the pixel. All of it is one kernel, so that nothing
// of a path goes through memory.

#include "scene.glsl"
#include "random.glsl"
#include "sampling.glsl"
#include "camera.glsl"
#include "bvh.glsl"
#include "material.glsl"
#include "light_tree.glsl"
#include "light.glsl"
#include "path.glsl"
#include "tonemap.glsl"
#include "film.glsl"

layout(local_size_x = WORKGROUP) in;

// A long frame is cut into several dispatches, so that none holds up a display or is taken for one that hangs.
layout(location = 0) uniform uint firstGroup;

#if COUNT_RAYS
layout(std430, binding = 2) restrict writeonly buffer RayCounts { uvec2 rayCounts[]; };  // of each pixel: shadow, indirect
#endif

// Lanes take the picture tile by tile, 8 x 4 pixels, and a tile along a Z-curve: however wide the hardware's groups are, 8 lanes or 64,
// their rays go about the same way.
ivec2 pixelOf(uint lane)
{
    uint tile = lane / 32u, across = uint(frame.size.x + 7) / 8u;
    uvec2 within = uvec2((lane & 1u) | ((lane >> 1) & 2u) | ((lane >> 2) & 4u), ((lane >> 1) & 1u) | ((lane >> 2) & 2u));
    return ivec2(uvec2(tile % across, tile / across) * uvec2(8u, 4u) + within);
}

void main()
{
    ivec2 pixel = pixelOf((firstGroup + gl_WorkGroupID.x) * WORKGROUP + gl_LocalInvocationIndex);
    if (any(greaterThanEqual(pixel, frame.size))) return;
    uint index = uint(pixel.y * frame.size.x + pixel.x);

    vec4 samples = vec4(0.0);  // the sum of those that are finite, and the number of the others
    Rays rays = Rays(0u, 0u);
    uint i = 0u;
    do
    {
        Rng rng = rngOf(index, frame.samples + i, frame.seed);
        Ray ray = cameraRay(pixel, rng);
        vec3 radiance = trace(ray, rng, rays);
        float sum = radiance.r + radiance.g + radiance.b;
        samples += isnan(sum) || isinf(sum) ? vec4(0.0, 0.0, 0.0, 1.0) : vec4(radiance, 0.0);
    } while (++i < frame.spp);
    accumulate(index, samples);
#if COUNT_RAYS
    rayCounts[index] = uvec2(rays.shadow, rays.indirect);
#endif
}
