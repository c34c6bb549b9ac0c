// From radiance to the screen: exposure, a tone curve, the sRGB transfer function, eight bits a channel.
//
// A tone mapper takes a linear colour of any brightness to one within [0, 1]. Which one is taken is a parameter of the frame.

const int FILMIC = 0, LINEAR = 1, REINHARD = 2, AGX = 3;  // 4: Khronos neutral

// A fit of the ACES reference curve to [0, 1] (Narkowicz, "ACES Filmic Tone Mapping Curve", 2015).
vec3 filmic(vec3 x) { return (x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14); }

// Luminance L becomes L / (1 + L), hue stays (Reinhard et al., "Photographic Tone Reproduction for Digital Images", 2002, eq. 3).
vec3 reinhard(vec3 x) { return x / (1.0 + dot(x, vec3(0.2126, 0.7152, 0.0722))); }

// Sobotka's AgX, its base look, by Wrensch's fit ("Minimal AgX Implementation", 2022). Matrices are written column by column.
vec3 agx(vec3 x)
{
    const mat3 inset = mat3(
        0.842479062253094, 0.0423282422610123, 0.0423756549057051,
        0.0784335999999992, 0.878468636469772, 0.0784336,
        0.0792237451477643, 0.0791661274605434, 0.879142973793104);
    const mat3 outset = mat3(
        1.19687900512017, -0.0528968517574562, -0.0529716355144438,
        -0.0980208811401368, 1.15190312990417, -0.0980434501171241,
        -0.0990297440797205, -0.0989611768448433, 1.15107367264116);
    const float low = -12.47393, high = 4.026069;  // stops about 1
    x = (clamp(log2(max(inset * x, 1e-10)), low, high) - low) / (high - low);
    x = (((((15.5 * x - 40.14) * x + 31.96) * x - 6.868) * x + 0.4298) * x + 0.1191) * x - 0.00232;
    return pow(clamp(outset * x, 0.0, 1.0), vec3(2.2));
}

// The Khronos PBR Neutral tone mapper (specification of 2024).
vec3 khronosNeutral(vec3 x)
{
    const float start = 0.8 - 0.04, room = 1.0 - start, desaturation = 0.15;
    float least = min(min(x.r, x.g), x.b);
    x -= least < 0.08 ? least - 6.25 * least * least : 0.04;
    float peak = max(max(x.r, x.g), x.b);
    if (peak < start) return x;
    float lowered = 1.0 - room * room / (peak + room - start);
    return mix(vec3(lowered), x * (lowered / peak), 1.0 / (desaturation * (peak - lowered) + 1.0));
}

// What is brighter than a million is white long since, and its square could overflow.
vec3 toneMapped(vec3 radiance)
{
    vec3 x = min(radiance * frame.exposure, 1e6);
    switch (frame.toneMapper)
    {
        case FILMIC: x = filmic(x); break;
        case LINEAR: break;
        case REINHARD: x = reinhard(x); break;
        case AGX: x = agx(x); break;
        default: x = khronosNeutral(x);
    }
    return clamp(x, 0.0, 1.0);
}

// Linear to sRGB (IEC 61966-2-1), for values in [0, 1].
vec3 srgb(vec3 x)
{
    return mix(1.055 * pow(x, vec3(1.0 / 2.4)) - 0.055, 12.92 * x, lessThanEqual(x, vec3(0.0031308)));
}

// An opaque pixel, red in the lowest byte. (The bytes are put together by hand: packUnorm4x8 may round a half either way.)
uint rgba8(vec3 colour)
{
    uvec3 c = uvec3(ivec3(srgb(toneMapped(colour)) * 255.0 + 0.5));
    return c.r | (c.g << 8) | (c.b << 16) | 0xFF000000u;
}
