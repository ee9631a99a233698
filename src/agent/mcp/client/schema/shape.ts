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

/** Of a schema that is used at all; to look at so many takes this thread some milliseconds. */
export const MAX_SCHEMA_PARTS = 100_000;

export interface SchemaShape {
  readonly depth: number;
  /** Whether it has more than {@link MAX_SCHEMA_PARTS}: then nobody has looked at all of them. */
  readonly tooLarge: boolean;
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
  while (level.length > 0 && depth <= maxDepth && keys <= MAX_SCHEMA_PARTS) {
    const next: unknown[] = [];
    for (const node of level) {
      if (keys > MAX_SCHEMA_PARTS) break;
      if (Array.isArray(node)) {
        keys += node.length;
        for (const child of keys > MAX_SCHEMA_PARTS ? [] : node) if (isNode(child)) next.push(child);
        continue;
      }
      const parts = node as Record<string, unknown>;
      // Not its entries: of an object with very many properties they would take longer than everything else here.
      for (const key in parts) {
        const child = parts[key];
        keys += 1;
        if (costly.has(key)) isCostly = true;
        if (branching.has(key)) branches += Array.isArray(child) ? child.length : 1;
        if (identifying.has(key)) named = true;
        if (key === '$async') isAsync = true;
        if (key === '$ref') refers = true;
        if (key === 'enum' && Array.isArray(child)) enumValues = Math.max(enumValues, child.length);
        if (isNode(child)) next.push(child);
      }
    }
    level = next;
    depth += 1;
  }
  const tooLarge = keys > MAX_SCHEMA_PARTS;
  return {
    depth,
    tooLarge,
    cheap:
      !isCostly &&
      !tooLarge &&
      (refers ? expandsTo(schema, cheap.keys) : keys <= cheap.keys) &&
      branches <= cheap.branches &&
      enumValues <= cheap.enumValues,
    named,
    async: isAsync,
  };
}

const isNode = (child: unknown): child is object => typeof child === 'object' && child !== null;

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
