// Light from emissive triangles: choosing a point on them, finding the nearest one on a ray, and weighing the two ways to meet them.
//
// Few triangles are chosen by their power (area times luminance) from an alias table, a point on one uniformly by area. The density of a
// point by area is therefore luminance / total power, whatever the triangle: a hit on an emitter needs but its material to know it. Many
// are chosen from a tree (light_tree.glsl): the same density, times a factor that is the light's own.
//
// lights: four texels each, 16 floats: first vertex, two edges, radiance, density by area, two-sided (0 or 1), longest edge, nothing.

struct LightPoint
{
    vec3 point;
    vec3 normal;     // of unit length, towards the emitting side
    vec3 radiance;   // W/(sr m2)
    float density;   // of choosing the point, 1/m2
    bool twoSided;
    float size;      // longest edge of the triangle, m
};

struct LightTriangle
{
    vec3 vertex, edge1, edge2;
    vec3 radiance;
    float density;
    bool twoSided;
    float size;
};

LightTriangle lightAt(int number)
{
    vec4 a = texelFetch(lights, 4 * number), b = texelFetch(lights, 4 * number + 1);
    vec4 c = texelFetch(lights, 4 * number + 2), d = texelFetch(lights, 4 * number + 3);
    return LightTriangle(a.xyz, vec3(a.w, b.xy), vec3(b.zw, c.x), c.yzw, d.x, d.y > 0.0, d.z);
}

LightPoint pointOf(LightTriangle light, vec3 point)
{
    return LightPoint(point, normalize(cross(light.edge1, light.edge2)), light.radiance, light.density, light.twoSided, light.size);
}

// How far off a light's point rays must end.
float errorAt(LightPoint light) { return OFFSET * max(largest(light.point), light.size); }

// A point on some light, for a surface. There must be one.
LightPoint sampleLight(vec3 point, vec3 normal, inout Rng rng)
{
    float u = next(rng), v = next(rng), w = next(rng);
#if FEW_LIGHTS
    float scaled = u * float(frame.lightCount);
    int column = min(int(scaled), frame.lightCount - 1);
    vec2 entry = texelFetch(aliases, column).xy;
    LightTriangle light = lightAt(scaled - float(column) < entry.x ? column : floatBitsToInt(entry.y));
#else
    float favour;
    LightTriangle light = lightAt(chooseLight(point, normal, u, next(rng), favour));
    light.density *= favour;
#endif
    vec2 b = sampleTriangle(v, w);
    return pointOf(light, light.vertex + light.edge1 * b.x + light.edge2 * b.y);
}

// The nearest emissive triangle on a ray, from either side: its number (-1: none) and distance. There must be a light.
// Moeller and Trumbore, "Fast, Minimum Storage Ray/Triangle Intersection" (1997).
int nearestLight(Ray ray, out float t)
{
    int found = -1, i = 0;
    t = FAR;
    do
    {
        LightTriangle light = lightAt(i);
        vec3 across = cross(ray.direction, light.edge2);
        float scale = 1.0 / dot(light.edge1, across);
        vec3 start = ray.origin - light.vertex;
        vec3 along = cross(start, light.edge1);
        float u = dot(start, across) * scale, v = dot(ray.direction, along) * scale, here = dot(light.edge2, along) * scale;
        if (u >= 0.0 && v >= 0.0 && u + v <= 1.0 && here > 0.0 && here < t)
        {
            t = here;
            found = i;
        }
    } while (++i < frame.lightCount);
    return found;
}

// The density of a point on a light, D by area, is D r^2 / c by solid angle, at the distance r under the cosine c. Veach's power
// heuristic weighs it against the density p of scattering; both forms below have one division.

// Weight of a point sampled on a light, divided by its density by solid angle: a / (a^2 + p^2), where a = D r^2 / c.
float weightOfConnecting(float density, float distanceSquared, float cosine, float scattering)
{
    float byArea = density * distanceSquared, other = scattering * cosine;
    return byArea * cosine / (byArea * byArea + other * other);
}

// Weight of light found by scattering: p^2 / (a^2 + p^2); 1 where no light sampling could have found it (D = 0).
float weightOfScattering(float density, float distanceSquared, float cosine, float scattering)
{
    float byArea = density * distanceSquared, other = scattering * cosine;
    float square = other * other;
    return density > 0.0 ? square / (byArea * byArea + square) : 1.0;
}
