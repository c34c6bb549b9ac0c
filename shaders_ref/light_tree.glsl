// Choosing among many lights by where the light is wanted: a walk down a tree, at each pair of children to the one of which more is to be
// expected (renderer/shading/light_tree.py says why so, and what it leaves out of Conty Estevez and Kulla's).
//
// lightNodes: four texels a pair of children, two each: mean place of the power below, half its variance; mean normal, a quarter of their
// variance. lightLinks: two texels a pair, one each: 0.5 where it shines from one side and 1 where from both, share of the pair's power,
// link (bits: a pair, or -1 - a light), place of the pair in its own parent (bits: -1 for the root's). lightPlaces: an int32 (bits) for each
// triangle of the scene, four a texel: the place in the tree of one that shines. A place is twice a pair, plus 1 for the second child.
//
// A light's favour is how much likelier it is to be chosen than by its power.

const float LEAST = 1e-6;           // of the product of two cosines
const float NARROW = 1.0 / 1024.0;  // an interval within which a random number has too few bits left

// What lights of unit power may be expected to send to a surface.
float expected(vec4 place, vec4 normals, float sides, vec3 point, vec3 normal)
{
    vec3 away = place.xyz - point;
    float squared = dot(away, away) + place.w, quarter = 0.5 * place.w;
    float sent = -dot(normals.xyz, away), above = dot(normal, away);
    sent = sent * (1.0 - sides) + sqrt(sent * sent + normals.w * squared + quarter) * sides;
    float taken = 0.5 * (above + sqrt(above * above + quarter));
    float inverse = 1.0 / squared;
    return max(sent * taken * inverse, LEAST) * inverse;
}

// The same of both children of a pair.
vec2 expectedOf(int pair, vec4 one, vec4 two, vec3 point, vec3 normal)
{
    int at = 4 * pair;
    return vec2(expected(texelFetch(lightNodes, at), texelFetch(lightNodes, at + 1), one.x, point, normal),
                expected(texelFetch(lightNodes, at + 2), texelFetch(lightNodes, at + 3), two.x, point, normal));
}

// A light for a surface. u, v: random numbers; v takes over when u's interval, which begins at `low`, has become narrow.
int chooseLight(vec3 point, vec3 normal, float u, float v, out float favour)
{
    int link = frame.lightRoot;  // 0, which the driver must not know: see light_tree.py
    float low = 0.0, width = 1.0;
    favour = 1.0;
    do
    {
        vec4 one = texelFetch(lightLinks, 2 * link), two = texelFetch(lightLinks, 2 * link + 1);
        vec2 each = expectedOf(link, one, two, point, normal), weights = each * vec2(one.y, two.y);
        float scale = 1.0 / (weights.x + weights.y), part = width * scale;
        float middle = low + weights.x * part;
        bool first = u < middle;
        link = floatBitsToInt(first ? one.z : two.z);
        favour *= (first ? each.x : each.y) * scale;
        width = (first ? weights.x : weights.y) * part;
        if (!first) low = middle;
        if (width < NARROW && v >= 0.0)
        {
            u = v;
            v = -1.0;
            low = 0.0;
            width = 1.0;
        }
    } while (link >= 0);
    return -1 - link;
}

// The favour of a triangle that shines, for a surface.
float favourOf(int triangle, vec3 point, vec3 normal)
{
    int place = floatBitsToInt(texelFetch(lightPlaces, triangle >> 2)[triangle & 3]);
    float favour = 1.0;
    do
    {
        int pair = place >> 1;
        bool first = (place & 1) == 0;
        vec4 one = texelFetch(lightLinks, 2 * pair), two = texelFetch(lightLinks, 2 * pair + 1);
        vec2 each = expectedOf(pair, one, two, point, normal);
        favour *= (first ? each.x : each.y) / dot(each, vec2(one.y, two.y));
        place = floatBitsToInt(one.w);
    } while (place >= 0);
    return favour;
}
