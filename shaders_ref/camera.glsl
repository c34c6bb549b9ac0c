// The camera: from pixels to rays. Pixels are sampled by a box filter.
//
// The lens is thin: all rays that leave a point of the plane of focus meet again in one point of the picture, wherever they pass the lens.
// So a ray begins at a random point of the lens and runs through the point of that plane that the pixel shows.

// A ray through a random point of a pixel; its direction has unit length.
Ray cameraRay(ivec2 pixel, inout Rng rng)
{
    vec3 right = frame.place[0].xyz, up = frame.place[1].xyz, back = frame.place[2].xyz, eye = frame.place[3].xyz;
    float u = next(rng), v = next(rng);
    float x = ((float(pixel.x) + u) / float(frame.size.x) * 2.0 - 1.0) * frame.extent.x;
    float y = (1.0 - (float(pixel.y) + v) / float(frame.size.y) * 2.0) * frame.extent.y;
    vec3 across = right * x + up * y;
    Ray ray = frame.orthographic ? Ray(eye + across, -back) : Ray(eye, across - back);
    if (frame.aperture > 0.0)
    {
        u = next(rng), v = next(rng);
        vec2 p = sampleDisk(u, v) * frame.aperture;
        vec3 off = right * p.x + up * p.y;
        ray = Ray(ray.origin + off, ray.direction * frame.focus - off);
    }
    return Ray(ray.origin, normalize(ray.direction));
}
