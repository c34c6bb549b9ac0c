// From uniform numbers to points and directions.

const float PI = 3.14159265358979;
const float INV_PI = 1.0 / PI;

// A point of the unit disk, uniform by area: the concentric map (Shirley and Chiu, "A Low Distortion Map Between Disk and Square", 1997).
// The angle is at most pi / 4 either way, where a few terms of Taylor's series are as good as sin() and cos(), and cheaper.
vec2 sampleDisk(float u, float v)
{
    float a = 2.0 * u - 1.0, b = 2.0 * v - 1.0;
    bool wide = a * a > b * b;
    float radius = wide ? a : b;
    float x = (PI / 4.0) * ((wide ? b : a) / (radius == 0.0 ? 1.0 : radius));
    float s = x * x;
    float sine = x * (1.0 + s * (-1.0 / 6.0 + s * (1.0 / 120.0 + s * (-1.0 / 5040.0 + s * (1.0 / 362880.0)))));
    float cosine = 1.0 + s * (-1.0 / 2.0 + s * (1.0 / 24.0 + s * (-1.0 / 720.0 + s * (1.0 / 40320.0))));
    return radius * (wide ? vec2(cosine, sine) : vec2(sine, cosine));
}

// A direction about +z with density cos(theta) / pi (Malley's method).
vec3 sampleCosineHemisphere(float u, float v)
{
    vec2 p = sampleDisk(u, v);
    return vec3(p, sqrt(max(1.0 - p.x * p.x - p.y * p.y, 0.0)));
}

// Barycentric weights (of the second and third vertex) of a point of a triangle, uniform by area.
vec2 sampleTriangle(float u, float v)
{
    float root = sqrt(u);
    return vec2(root * (1.0 - v), root * v);
}

// A basis whose third vector is the unit vector n (Duff et al., "Building an Orthonormal Basis, Revisited", JCGT 2017).
mat3 basisAround(vec3 n)
{
    float s = n.z < 0.0 ? -1.0 : 1.0;
    float a = -1.0 / (s + n.z);
    float b = n.x * n.y * a;
    return mat3(vec3(1.0 + s * n.x * n.x * a, s * b, -s * n.x), vec3(b, s + n.y * n.y * a, -n.y), n);
}
