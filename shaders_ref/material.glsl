// Surfaces, and how they scatter light: the Lambert part of glTF's materials.

// A hit point carries a rounding error of some units in the last place of the coordinates and distances that made it. Rays that leave it
// start so many times those off the surface, whatever the scene's scale.
const float OFFSET = 1e-6;

struct Surface
{
    vec3 point;
    vec3 normal;    // geometric, of unit length, on the side that the ray came from
    vec3 origin;    // of rays that leave the point
    vec3 albedo;
    vec3 emission;  // radiance towards the ray, W/(sr m2)
    float density;  // with which light sampling would have chosen the point, 1/m2; 0: it never would
};

float largest(vec3 v)
{
    v = abs(v);
    return max(max(v.x, v.y), v.z);
}

// What is known of a hit. The distance of the triangle's corners is among those that made it: a floor of a kilometre is rounded as such
// wherever one stands on it.
Surface surfaceAt(Hit hit, Ray ray)
{
    vec4 plane = texelFetch(triangles, 2 * hit.triangle);
    float longestEdge = texelFetch(triangles, 2 * hit.triangle + 1).x;
    int material = floatBitsToInt(plane.w);
    vec4 reflection = texelFetch(materials, 2 * material), light = texelFetch(materials, 2 * material + 1);

    bool front = dot(plane.xyz, ray.direction) < 0.0;
    bool emits = front || reflection.w > 0.0;
    vec3 point = at(ray, hit.t);
    vec3 normal = front ? plane.xyz : -plane.xyz;
    float error = OFFSET * max(largest(point), max(hit.t, longestEdge));
    return Surface(point, normal, point + normal * error, reflection.rgb, emits ? light.rgb : vec3(0.0), emits ? light.w : 0.0);
}

// The BSDF times the cosine of the light's direction is albedo * lambert(cosine), and lambert(cosine), in 1/sr, is also the density of
// sampling that direction by the cosine: the weight of such a sample is the albedo.
float lambert(float cosine) { return max(cosine, 0.0) * INV_PI; }
