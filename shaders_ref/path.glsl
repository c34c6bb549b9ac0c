// The path tracer: radiance along camera rays.
//
// Each segment finds the nearest hit, adds what that emits, connects to a point on a light (next-event estimation), and scatters. Emission
// found by scattering and light found by connecting are the same light seen twice; multiple importance sampling with the power heuristic
// weighs the two (Veach and Guibas, "Optimally Combining Sampling Techniques", 1995). The sky is found by scattering alone. From
// ROULETTE_DEPTH on, Russian roulette ends paths by their throughput.
//
// The last segment can only add the light that it meets. Where lights are few, no nearest hit is sought for it, but the nearest light on
// its way (or the sky), and, if there is one, whether anything stands before it.

const int ROULETTE_DEPTH = 5;  // the first segment that roulette may save

#define LAST_FOR_LIGHT (LIGHTS == 0 || FEW_LIGHTS == 1)

// Rays of a path beside the camera's.
struct Rays
{
    uint shadow;
    uint indirect;
};

#if LIGHTS
// The light that a point on a light sends to a surface and on along the path, if nothing stands between.
vec3 connect(Surface surface, inout Rng rng, inout Rays rays)
{
    LightPoint light = sampleLight(surface.point, surface.normal, rng);
    float facing = dot(light.normal, light.point - surface.point);
    float side = facing < 0.0 ? errorAt(light) : -errorAt(light);
    vec3 towards = light.point + light.normal * side - surface.origin;
    float distanceSquared = dot(towards, towards);
    vec3 direction = towards * inversesqrt(distanceSquared);
    float cosine = dot(surface.normal, direction), lightCosine = abs(dot(light.normal, direction));
    bool lit = facing < 0.0 || light.twoSided;
    if (!(lit && cosine > 0.0 && lightCosine > 1e-6)) return vec3(0.0);

    ++rays.shadow;
    if (anyHit(Ray(surface.origin, towards), 1.0)) return vec3(0.0);
    float f = lambert(cosine);
    return surface.albedo * light.radiance * (f * weightOfConnecting(light.density, distanceSquared, lightCosine, f));
}
#endif

#if LAST_FOR_LIGHT
// What the last segment meets. density: of the scattering that made it, 1/sr.
vec3 lastSegment(Ray ray, float density, inout Rays rays)
{
    vec3 seen = frame.sky;
    float reach = FAR;
#if LIGHTS
    float t;
    int found = nearestLight(ray, t);
    if (found >= 0)
    {
        LightPoint light = pointOf(lightAt(found), at(ray, t));
        float facing = dot(light.normal, ray.direction);
        float error = max(errorAt(light), OFFSET * t);
        seen = facing < 0.0 || light.twoSided ? light.radiance : vec3(0.0);
        if (frame.maxDepth > 1) seen *= weightOfScattering(light.density, t * t, abs(facing), density);
        ray.direction = light.point + light.normal * (facing < 0.0 ? error : -error) - ray.origin;
        reach = 1.0;
    }
#if !SKY
    else return vec3(0.0);
#endif
#endif
    if (frame.maxDepth > 1) ++rays.indirect;
    return anyHit(ray, reach) ? vec3(0.0) : seen;
}
#endif

// Radiance along a camera ray, W/(sr m2).
vec3 trace(Ray ray, inout Rng rng, inout Rays rays)
{
    vec3 throughput = vec3(1.0), radiance = vec3(0.0);
    float density = 0.0;  // of the last scattering, 1/sr
#if LIGHTS && !FEW_LIGHTS
    vec3 scattered, about;  // where that was, and the normal there
#endif
    ray = approach(ray);

    int segment = 1, segments = LAST_FOR_LIGHT ? frame.maxDepth - 1 : frame.maxDepth;
    if (segment <= segments)
        do
        {
            if (segment > 1) ++rays.indirect;
            Hit hit = closestHit(ray);
            if (hit.triangle == NOTHING)
            {
#if SKY
                radiance += throughput * frame.sky;
#endif
                return radiance;
            }
            Surface surface = surfaceAt(hit, ray);

            // Light of its own, weighed against finding it by light sampling, which the camera does not do.
            float cosine = abs(dot(surface.normal, ray.direction));
#if LIGHTS && !FEW_LIGHTS
            if (segment > 1 && surface.density > 0.0) surface.density *= favourOf(hit.triangle, scattered, about);
            scattered = surface.point;
            about = surface.normal;
#endif
            float weight = segment > 1 ? weightOfScattering(surface.density, hit.t * hit.t, cosine, density) : 1.0;
            radiance += throughput * surface.emission * weight;
            if (segment == frame.maxDepth) return radiance;

#if LIGHTS
            radiance += throughput * connect(surface, rng, rays);
#endif

            float u = next(rng), v = next(rng);
            vec3 wi = sampleCosineHemisphere(u, v);
            density = lambert(wi.z);
            ray = Ray(surface.origin, basisAround(surface.normal) * wi);
            throughput *= surface.albedo;
            float brightest = max(max(throughput.r, throughput.g), throughput.b);
            if (segment >= ROULETTE_DEPTH - 1)
            {
                float chance = min(brightest, 0.95);
                if (next(rng) >= chance) return radiance;
                throughput /= max(chance, 1e-6);
            }
            if (brightest <= 0.0) return radiance;
        } while (++segment <= segments);
#if LAST_FOR_LIGHT
    radiance += throughput * lastSegment(ray, density, rays);
#endif
    return radiance;
}
