// The film: what has been gathered so far, kept on the device between frames; and the picture that it makes.

layout(std430, binding = 0) restrict buffer Film { vec4 film[]; };  // of each pixel: sum of radiance samples, number of those not finite
layout(std430, binding = 1) restrict writeonly buffer Picture { uint picture[]; };  // tone-mapped, red in the lowest byte

// Adds samples (their sum, and how many were not finite) to a pixel, or begins it anew with them, and draws it.
void accumulate(uint pixel, vec4 samples)
{
    if (frame.samples > 0u) samples += film[pixel];
    film[pixel] = samples;
    picture[pixel] = rgba8(samples.rgb / float(frame.samples + frame.spp));
}
