// Random numbers: counter-based, so that a pixel's sample is the same whoever computes it, in whatever order.
//
// A stream begins at the hash of (pixel, sample, seed) and goes on as a 32-bit LCG whose state is scrambled on output: PCG-RXS-M-XS
// (O'Neill 2014), the best hash of its cost in Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 2020.

struct Rng { uint state; };

uint scramble(uint state)
{
    uint word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
    return (word >> 22u) ^ word;
}

uint lcg(uint state) { return state * 747796405u + 2891336453u; }

uint pcg(uint value) { return scramble(lcg(value)); }

Rng rngOf(uint pixel, uint sampleIndex, uint seed) { return Rng(pcg(pixel + pcg(sampleIndex + pcg(seed)))); }

// The next number of the stream, in [0, 1): the upper 24 bits, which a float holds exactly. (By way of int: one instruction where
// the conversion from uint is several, and the same value, since the top bits are clear.)
float next(inout Rng rng)
{
    rng.state = lcg(rng.state);
    return float(int(scramble(rng.state) >> 8u)) * (1.0 / 16777216.0);
}
