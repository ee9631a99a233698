import type { JsonObject, JsonValue } from '../../../src/base/json.ts';
import type { Random } from '../random.ts';

/** A schema with a value that it takes and one that it does not take, by how they were made. */
export interface KnownSchema {
  readonly schema: JsonObject;
  readonly good: JsonValue;
  readonly bad: JsonValue;
}

type Maker = (random: Random, depth: number) => KnownSchema;

const MAX_DEPTH = 3;
/** Not among them: an empty name, which the library does not miss where it is required. */
const words = ['path', 'name', 'toString', 'a b', 'ключ', '数', 'x-1', '$ref_', 'constructor', '__defineGetter__'];
/** Names of what is compared as a whole: there the library takes an own `toString` or `constructor` for the object's. */
const plainWords = ['path', 'name', 'a b', 'ключ', '数', 'x-1'];

const text = (random: Random, length: number): string =>
  Array.from({ length }, () => random.pick(['a', 'é', '数', '😀', '0', '"', '\\', '\n'])).join('');

const scalars: readonly Maker[] = [
  (random) => {
    const most = 1 + random.below(20);
    const schema = { type: 'string', minLength: 1, maxLength: most };
    return { schema, good: text(random, most), bad: random.pick(['', text(random, most + 1), 5, null, [], {}]) };
  },
  (random) => {
    const most = random.below(1000);
    const schema = { type: 'integer', minimum: -most, maximum: most };
    return { schema, good: random.below(most + 1), bad: random.pick([most + 1, -most - 1, 0.5, '1', true]) };
  },
  (random) => {
    const step = 1 + random.below(9);
    const whole = step * random.below(100);
    return { schema: { type: 'number', multipleOf: step }, good: whole, bad: whole + step / 2 };
  },
  () => ({ schema: { type: 'boolean' }, good: false, bad: 0 }),
  () => ({ schema: { type: 'null' }, good: null, bad: false }),
  (random) => {
    const values = Array.from(
      { length: 1 + random.below(random.chance(9) ? 80 : 8) },
      (_, at) => `${at}${text(random, 3)}`,
    );
    return { schema: { enum: values }, good: random.pick(values), bad: random.pick(['none', 7, {}]) };
  },
  (random) => {
    const value = { [random.pick(plainWords)]: [1, { a: text(random, 3) }] };
    return { schema: { const: value }, good: structuredClone(value), bad: random.pick([{}, [], 1]) };
  },
  (random) => {
    const size = 1 + random.below(9);
    return { schema: { type: 'string', pattern: `^b{${size}}$` }, good: 'b'.repeat(size), bad: 'b'.repeat(size + 1) };
  },
];

const composites: readonly Maker[] = [
  (random, depth) => {
    const item = known(random, depth);
    const schema = { type: 'array', items: item.schema, minItems: 1, maxItems: 5 };
    const good = Array.from({ length: 1 + random.below(5) }, () => item.good);
    return { schema, good, bad: random.pick([[...good.slice(1), item.bad], [], Array(6).fill(item.good)]) };
  },
  (random, depth) => {
    const [first, second] = [known(random, depth), known(random, depth)];
    const schema = { type: 'array', prefixItems: [first.schema, second.schema], minItems: 2 };
    return { schema, good: [first.good, second.good], bad: [first.good, second.bad] };
  },
  (random) => {
    const items = Array.from({ length: 2 + random.below(6) }, (_, at) => at);
    return { schema: { type: 'array', uniqueItems: true }, good: items, bad: [...items, 0] };
  },
  (random, depth) => {
    const item = known(random, depth);
    const schema = { type: 'array', contains: item.schema, minContains: 1 };
    return { schema, good: [item.bad, item.good], bad: [item.bad] };
  },
  object,
  (random, depth) => {
    // Only the tag tells them apart, so neither takes what is meant for the other.
    const [a, b] = [known(random, depth), known(random, depth)];
    const tagged = (tag: string, value: JsonObject) => ({
      type: 'object',
      properties: { tag: { const: tag }, value },
      required: ['tag', 'value'],
    });
    const schema = { [random.pick(['oneOf', 'anyOf'])]: [tagged('a', a.schema), tagged('b', b.schema)] };
    return { schema, good: { tag: 'b', value: b.good }, bad: { tag: 'b', value: b.bad } };
  },
  (random, depth) => {
    const inner = known(random, depth);
    return { schema: { allOf: [inner.schema, {}] }, good: inner.good, bad: inner.bad };
  },
  (random, depth) => {
    const inner = known(random, depth);
    return { schema: { not: inner.schema }, good: inner.bad, bad: inner.good };
  },
  (random, depth) => {
    const inner = known(random, depth);
    const schema = { if: inner.schema, else: { not: {} } };
    return { schema, good: inner.good, bad: inner.bad };
  },
];

function object(random: Random, depth: number): KnownSchema {
  const names = [...new Set(Array.from({ length: 1 + random.below(4) }, () => random.pick(words)))];
  const members = names.map((name) => [name, known(random, depth)] as const);
  const properties = Object.fromEntries(members.map(([name, { schema }]) => [name, schema]));
  const good = Object.fromEntries(members.map(([name, member]) => [name, member.good]));
  const schema = { type: 'object', properties, required: names, additionalProperties: false };
  const [name, member] = random.pick(members);
  const { [name]: _left, ...without } = good;
  return { schema, good, bad: random.pick([{ ...good, [name]: member.bad }, without, { ...good, more: 1 }]) };
}

function known(random: Random, depth: number): KnownSchema {
  const makers = depth >= MAX_DEPTH || random.chance(3) ? scalars : composites;
  return random.pick(makers)(random, depth + 1);
}

/** As a tool has it: an object, some with what is inside of it as a definition. */
export function knownSchema(random: Random): KnownSchema {
  const { schema, good, bad } = object(random, 0);
  if (random.chance(3)) {
    const group = random.pick(['$defs', 'definitions']);
    const whole = { [group]: { inner: schema }, type: 'object', properties: { in: { $ref: `#/${group}/inner` } } };
    return { schema: whole, good: { in: good }, bad: { in: bad } };
  }
  if (random.chance(8)) return { schema: { ...schema, $id: `https://example.com/${random.below(9)}` }, good, bad };
  return { schema, good, bad };
}
