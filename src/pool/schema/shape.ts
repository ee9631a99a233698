/** Keywords whose cost is not bounded by the size of the value. As names of properties they only cost a little time. */
const costly: ReadonlySet<string> = new Set([
  '$dynamicRef',
  '$recursiveRef',
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

/** What the host's own thread takes upon itself: compiling it takes a few milliseconds, checking a small value less. */
const cheap = { keys: 600, branches: 16, enumValues: 64 } as const;

export interface SchemaShape {
  readonly depth: number;
  /** Whether it may be compiled, and small values be checked against it, on the host's own thread. */
  readonly cheap: boolean;
  /** Whether it gives names to itself or its parts, which other schemas could refer to. */
  readonly named: boolean;
  /** `$async` makes a validator answer with a promise, which counts as true: no schema of a tool has a use for it. */
  readonly async: boolean;
}

/** Looks at a schema without recursion, and no deeper than `maxDepth`. */
export function schemaShape(schema: unknown, maxDepth: number): SchemaShape {
  let depth = 0;
  let keys = 0;
  let branches = 0;
  let enumValues = 0;
  let isCostly = false;
  let named = false;
  let isAsync = false;
  let refers = false;
  let level: unknown[] = [schema];
  while (level.length > 0 && depth <= maxDepth) {
    const next: unknown[] = [];
    for (const node of level) {
      for (const [key, child] of Object.entries(node as object)) {
        keys += 1;
        if (costly.has(key)) isCostly = true;
        if (branching.has(key)) branches += 1;
        if (identifying.has(key)) named = true;
        if (key === '$async') isAsync = true;
        if (key === '$ref') refers = true;
        if (key === 'enum' && Array.isArray(child)) enumValues = Math.max(enumValues, child.length);
        if (typeof child === 'object' && child !== null) next.push(child);
      }
    }
    level = next;
    depth += 1;
  }
  return {
    depth,
    cheap:
      !isCostly &&
      (refers ? expandsTo(schema, cheap.keys) : keys <= cheap.keys) &&
      branches <= cheap.branches &&
      enumValues <= cheap.enumValues,
    named,
    async: isAsync,
  };
}

const LOCAL_REFERENCE = /^#\/(\$defs|definitions)\/([\w.-]+)$/;

/**
 * Whether a schema has at most so many keys once each reference to its own definitions is replaced by what it names.
 * One that goes round in a circle never does, nor one that refers to anything else.
 */
function expandsTo(schema: unknown, most: number): boolean {
  let left = most;
  const open: unknown[] = [schema];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    for (const [key, child] of Object.entries(node as object)) {
      left -= 1;
      if (left < 0) return false;
      if (key === '$ref') {
        const target = typeof child === 'string' ? definition(schema, child) : undefined;
        if (target === undefined) return false;
        open.push(target);
      } else if (typeof child === 'object' && child !== null && !(node === schema && isDefinitions(key))) {
        open.push(child);
      }
    }
  }
  return true;
}

const isDefinitions = (key: string) => key === '$defs' || key === 'definitions';

function definition(schema: unknown, reference: string): object | undefined {
  const [, group = '', name = ''] = LOCAL_REFERENCE.exec(reference) ?? [];
  const definitions = (schema as Record<string, unknown>)[group];
  if (typeof definitions !== 'object' || definitions === null || !Object.hasOwn(definitions, name)) return undefined;
  const found = (definitions as Record<string, unknown>)[name];
  return typeof found === 'object' && found !== null ? found : undefined;
}
