// Rays against the tree: nearest hit and any hit, each ray with a stack of its own.
//
// nodes: four texels a node, two for each of its two children: low corner of the child's box and the child (bits), high corner. A child is
// a node's number, or ~pair for a leaf; one that is not there has a box at infinity, which nothing hits. Boxes have been widened by the
// rounding error of the test for origins within the scene's box; `approach` takes others there.
//
// pairs: PAIR_TEXELS texels each. Two triangles (p, q, r) and (p, r, s) that share an edge are tested together, four corners and five
// edges instead of six and six. The corners come first; their fourth components are the number of the first triangle, of the second
// (bits), and whether the next pair belongs to the same leaf. Then the unit normal of the first triangle, and, unless all pairs are flat,
// of the second. A triangle without a partner has NaN for s, which covers nothing.
//
// SIDES: what rays meet of triangles. 0: both sides; 1: the front; 2: of a pair both where the fourth component of s is not 0, else the front.

#define PAIR_TEXELS (FLAT == 1 ? 5 : 6)

const int NOTHING = -1;  // `Hit.triangle` where a ray hits nothing
const int DONE = 0;      // neither node nor leaf: what lies below the first entry of a stack
const int ROOT = 1;      // the first node

struct Hit
{
    float t;
    int triangle;
};

// ---- Boxes ----

// What slabs are tested with: 1 / direction, its components not too small to divide by, and origin / direction.
struct Slabs
{
    vec3 inverse;
    vec3 shifted;
};

Slabs slabsOf(Ray ray)
{
    vec3 d = ray.direction;
    vec3 least = mix(vec3(1e-18), vec3(-1e-18), lessThan(d, vec3(0.0)));
    vec3 inverse = 1.0 / mix(d, least, lessThan(abs(d), vec3(1e-18)));
    return Slabs(inverse, ray.origin * inverse);
}

// Where a ray enters and where it leaves a box, not before its origin and not beyond t; it misses where it leaves before it enters.
vec2 within(vec3 low, vec3 high, Slabs ray, float t)
{
    vec3 one = low * ray.inverse - ray.shifted, other = high * ray.inverse - ray.shifted;
    vec3 near = min(one, other), far = max(one, other);
    return vec2(max(max(near.x, near.y), max(near.z, 0.0)), min(min(far.x, far.y), min(far.z, t)));
}

// The ray, moved forward to where it enters the scene's box, if it begins outside. Distances count from the new origin.
Ray approach(Ray ray)
{
    vec2 inside = within(frame.boxLow, frame.boxHigh, slabsOf(ray), FAR);
    return Ray(at(ray, inside.x <= inside.y ? inside.x : 0.0), ray.direction);
}

// Both children of a node: for each where the ray enters it, whether it does, and what it is.
struct Children
{
    vec2 near;
    bvec2 hit;
    ivec2 child;
};

Children childrenOf(int node, Slabs ray, float t)
{
    vec4 low0 = texelFetch(nodes, 4 * node), high0 = texelFetch(nodes, 4 * node + 1);
    vec4 low1 = texelFetch(nodes, 4 * node + 2), high1 = texelFetch(nodes, 4 * node + 3);
    vec2 a = within(low0.xyz, high0.xyz, ray, t), b = within(low1.xyz, high1.xyz, ray, t);
    return Children(vec2(a.x, b.x), bvec2(a.x <= a.y, b.x <= b.y), ivec2(floatBitsToInt(low0.w), floatBitsToInt(low1.w)));
}

// ---- Triangles ----
//
// No ray passes between triangles that share an edge or a vertex (Woop, Benthin and Wald, "Watertight Ray/Triangle Intersection", JCGT
// 2013). Space is sheared along the ray, which becomes a point, the origin of a plane, and vertices become points of that plane, the same
// ones for every triangle that has them.

// The axes of the sheared plane, and where the ray's origin lies in it. Two axes of space stay, the one that the ray runs along most goes.
struct Shear
{
    vec3 x, y;
    vec2 origin;
};

Shear shearOf(Ray ray)
{
    vec3 d = ray.direction, size = abs(d);
    vec3 x, y;
    if (size.x >= size.y && size.x >= size.z)
    {
        float scale = -1.0 / d.x;
        x = vec3(d.y * scale, 1.0, 0.0);
        y = vec3(d.z * scale, 0.0, 1.0);
    }
    else if (size.y >= size.z)
    {
        float scale = -1.0 / d.y;
        x = vec3(0.0, d.z * scale, 1.0);
        y = vec3(1.0, d.x * scale, 0.0);
    }
    else
    {
        float scale = -1.0 / d.z;
        x = vec3(1.0, 0.0, d.x * scale);
        y = vec3(0.0, 1.0, d.y * scale);
    }
#if SIDES
    if (dot(cross(x, y), d) > 0.0)  // so that fronts go round the origin to the left
    {
        vec3 other = x;
        x = y;
        y = other;
    }
#endif
    return Shear(x, y, vec2(dot(ray.origin, x), dot(ray.origin, y)));
}

vec2 sheared(vec3 v, Shear s) { return vec2(dot(v, s.x), dot(v, s.y)) - s.origin; }

// Whether the origin lies left of, right of an edge; on it: both. The two products are compared, each rounded: rounding can make them
// equal, which counts as inside for both neighbours, but never turns the sign. The sign of their difference would not do: it may be a
// fused multiply-add, which rounds one of them only. Nor may the compiler make one of this, hence `precise`.
bvec2 sides(vec2 a, vec2 b)
{
    precise float one = a.x * b.y;
    precise float other = a.y * b.x;
    return bvec2(one >= other, one <= other);
}

struct Pair
{
    vec3 p, q, r, s;
    ivec2 triangle;
    bool last;       // of its leaf
    bool both;       // sides can be met
    vec3 normal0, normal1;
};

Pair pairAt(int number)
{
    int i = PAIR_TEXELS * number;
    vec4 p = texelFetch(pairs, i), q = texelFetch(pairs, i + 1), r = texelFetch(pairs, i + 2), s = texelFetch(pairs, i + 3);
    vec3 normal0 = texelFetch(pairs, i + 4).xyz;
#if FLAT
    vec3 normal1 = normal0;
#else
    vec3 normal1 = texelFetch(pairs, i + 5).xyz;
#endif
    return Pair(p.xyz, q.xyz, r.xyz, s.xyz, floatBitsToInt(vec2(p.w, q.w)), r.w == 0.0, s.w > 0.0, normal0, normal1);
}

// Whether the ray goes through the first, through the second triangle of a pair.
bvec2 covers(Pair pair, Shear shear)
{
    vec2 p = sheared(pair.p, shear), q = sheared(pair.q, shear), r = sheared(pair.r, shear), s = sheared(pair.s, shear);
    bvec2 pq = sides(p, q), qr = sides(q, r), rp = sides(r, p), rs = sides(r, s), sp = sides(s, p);
    bvec2 pr = rp.yx;
    bvec2 front = bvec2(pq.x && qr.x && rp.x, pr.x && rs.x && sp.x);
#if SIDES == 1
    return front;
#else
    bvec2 back = bvec2(pq.y && qr.y && rp.y, pr.y && rs.y && sp.y);
#if SIDES == 2
    if (!pair.both) return front;
#endif
    return bvec2(front.x || back.x, front.y || back.y);
#endif
}

float distanceTo(vec3 point, vec3 normal, Ray ray) { return dot(point - ray.origin, normal) / dot(normal, ray.direction); }

bool isWithin(float t, float most) { return t > 0.0 && t < most; }

// The nearer one of what is known and what the ray hits of a pair.
Hit nearer(Hit known, Pair pair, Ray ray, Shear shear)
{
    bvec2 hit = covers(pair, shear);
    float t = distanceTo(pair.p, pair.normal0, ray);
#if FLAT
    if (any(hit) && isWithin(t, known.t)) known = Hit(t, hit.x ? pair.triangle.x : pair.triangle.y);
#else
    if (hit.x && isWithin(t, known.t)) known = Hit(t, pair.triangle.x);
    t = distanceTo(pair.p, pair.normal1, ray);
    if (hit.y && isWithin(t, known.t)) known = Hit(t, pair.triangle.y);
#endif
    return known;
}

bool blocks(Pair pair, Ray ray, Shear shear, float reach)
{
    bvec2 hit = covers(pair, shear);
    bool first = isWithin(distanceTo(pair.p, pair.normal0, ray), reach);
#if FLAT
    return any(hit) && first;
#else
    return (hit.x && first) || (hit.y && isWithin(distanceTo(pair.p, pair.normal1, ray), reach));
#endif
}

// ---- The two walks ----
//
// Both go down to a leaf in one loop and through the leaf in another, so that the lanes of a group are at the same kind of work (Aila and
// Laine, "Understanding the Efficiency of Ray Traversal on GPUs", 2009).
//
// Here and elsewhere loops test at their end whether to go on. A processor's driver masks lanes off and does not jump over code, so a loop
// that tests at its beginning takes one more turn in which no lane takes part.

bool isNode(int node) { return node > 0; }
bool isLeaf(int node) { return node < 0; }

// The nearest hit with 0 < t < FAR. Of two children the nearer one is visited first, the other waits on the stack.
Hit closestHit(Ray ray)
{
    Slabs slabs = slabsOf(ray);
    Shear shear = shearOf(ray);
    Hit hit = Hit(FAR, NOTHING);
    int stack[STACK];
    int top = 0, node = ROOT;
    stack[0] = DONE;
    do
    {
        if (isNode(node))
            do
            {
                Children two = childrenOf(node, slabs, hit.t);
                if (all(two.hit))
                {
                    bool swapped = two.near.y < two.near.x;
                    stack[++top] = swapped ? two.child.x : two.child.y;
                    node = swapped ? two.child.y : two.child.x;
                }
                else if (any(two.hit)) node = two.hit.x ? two.child.x : two.child.y;
                else node = stack[top--];
            } while (isNode(node));
        if (isLeaf(node))
            do
            {
                Pair pair = pairAt(~node);
                hit = nearer(hit, pair, ray, shear);
                node = pair.last ? stack[top--] : node - 1;
            } while (isLeaf(node));
    } while (node != DONE);
    return hit;
}

// Whether anything is hit with 0 < t < reach. In whatever order: one hit is enough.
bool anyHit(Ray ray, float reach)
{
    Slabs slabs = slabsOf(ray);
    Shear shear = shearOf(ray);
    bool found = false;
    int stack[STACK];
    int top = 0, node = ROOT;
    stack[0] = DONE;
    do
    {
        if (isNode(node))
            do
            {
                Children two = childrenOf(node, slabs, reach);
                if (all(two.hit))
                {
                    stack[++top] = two.child.y;
                    node = two.child.x;
                }
                else if (any(two.hit)) node = two.hit.x ? two.child.x : two.child.y;
                else node = stack[top--];
            } while (isNode(node));
        if (isLeaf(node))
            do
            {
                Pair pair = pairAt(~node);
                found = blocks(pair, ray, shear, reach);
                if (found) node = DONE;
                else node = pair.last ? stack[top--] : node - 1;
            } while (isLeaf(node));
    } while (node != DONE);
    return found;
}
