/** Keywords whose cost is not bounded by the size of the value. As names of properties they only cost a little time. */
const costly: ReadonlySet<string> = new Set([
  '$dynamicRef',
  '$recursiveRef',
  '$ref',
  'contains',
  'pattern',
  'patternProperties',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
  'uniqueItems',
]);
const branching: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'dependentSchemas', 'if', 'not', 'oneOf']);
const identifying: ReadonlySet<string> = new Set(['$anchor', '$dynamicAnchor', '$id', '$recursiveAnchor']);
/** A few branches are in every schema; many of them multiply with a large value. */
const MAX_CHEAP_BRANCHES = 32;

export interface SchemaShape {
  readonly depth: number;
  /** Whether checking a value against it has to be watched. */
  readonly costly: boolean;
  /** Whether it gives names to itself or its parts, which other schemas could refer to. */
  readonly named: boolean;
}

/** Looks at a schema without recursion, and no deeper than `maxDepth`. */
export function schemaShape(schema: unknown, maxDepth: number): SchemaShape {
  let depth = 0;
  let branches = 0;
  let isCostly = false;
  let named = false;
  let level: unknown[] = [schema];
  while (level.length > 0 && depth <= maxDepth) {
    const next: unknown[] = [];
    for (const node of level) {
      if (typeof node !== 'object' || node === null) continue;
      for (const [key, child] of Object.entries(node)) {
        if (costly.has(key)) isCostly = true;
        if (branching.has(key)) branches += 1;
        if (identifying.has(key)) named = true;
        if (typeof child === 'object' && child !== null) next.push(child);
      }
    }
    level = next;
    depth += 1;
  }
  return { depth, costly: isCostly || branches > MAX_CHEAP_BRANCHES, named };
}
