// What a frame reads: its parameters, which change from frame to frame, and the scene's tables, which do not.
//
// What shapes the code is defined by the loader at the head of the program, as 0 or 1 where it is a question:
//     WORKGROUP      lanes a workgroup
//     STACK          entries that a walk of the tree may leave waiting
//     FLAT           do the two triangles of every pair lie in one plane?
//     LIGHTS         are there emissive triangles?
//     FEW_LIGHTS     so few that a ray may be compared with each of them?
//     SKY            does light come from where nothing is?
//     COUNT_RAYS     are rays counted?
//
// The tables are buffer textures of four floats a texel, not storage buffers: they are only read, and always a row at a time. A driver
// for a processor (Mesa's llvmpipe) gathers a texel in a quarter of the time that it takes for a vec4 of a storage buffer, which it loads
// lane by lane and checks against the bounds each time; on graphics processors there is no difference to speak of.

layout(std140, binding = 0) uniform Frame
{
    vec4 place[4];     // the camera: right, up, backward (unit vectors), position in m
    vec2 extent;       // half width and half height of the picture, as tangents (perspective) or m (orthographic)
    ivec2 size;        // of the picture, pixels
    vec3 boxLow;       // of the box that all that can be hit lies in
    float aperture;    // radius of the lens, m; 0: a pinhole
    vec3 boxHigh;
    float focus;       // distance of what is sharp, m
    vec3 sky;          // radiance from where nothing is, W/(sr m2)
    float exposure;
    uint samples;      // a pixel, that the film has; 0: it begins anew
    uint spp;          // samples a pixel that this frame adds
    uint seed;
    bool orthographic;
    int maxDepth;      // segments of a path, counted from the camera; 2 is direct light
    int lightCount;    // emissive triangles
    int toneMapper;    // see tonemap.glsl
    int lightRoot;     // 0: the root's pair in the tree of lights
} frame;

layout(binding = 0) uniform samplerBuffer nodes;      // of the tree, see bvh.glsl
layout(binding = 1) uniform samplerBuffer pairs;      // of triangles, see bvh.glsl
layout(binding = 2) uniform samplerBuffer triangles;  // unit normal, material (bits); longest edge in m
layout(binding = 3) uniform samplerBuffer materials;  // albedo, two-sided (0 or 1); emission, density of light sampling by area
layout(binding = 4) uniform samplerBuffer lights;     // see light.glsl
layout(binding = 5) uniform samplerBuffer aliases;    // share of a column that is its own, the other light of the column (bits)
layout(binding = 6) uniform samplerBuffer lightNodes;   // of the tree of many lights, see light_tree.glsl
layout(binding = 7) uniform samplerBuffer lightLinks;   // between them
layout(binding = 8) uniform samplerBuffer lightPlaces;  // of triangles in it

const float FAR = 3.0e38;

struct Ray
{
    vec3 origin;
    vec3 direction;  // of any length: distances along a ray count in units of it
};

vec3 at(Ray ray, float t) { return ray.origin + ray.direction * t; }
