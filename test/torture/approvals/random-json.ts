import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../../src/base/json.ts';
import type { Random } from '../random.ts';

/** Keys and texts that something between here and a server might take for another, or for nothing. */
const oddTexts = [
  '',
  ' ',
  'a',
  'A',
  'a ',
  '1',
  '01',
  '__proto__',
  'constructor',
  'é',
  'e\u0301',
  '\u202e',
  '\u0000',
  '\ud800',
];
const oddNumbers = [0, 1, -1, 1.5, 1e21, 2 ** 53, Number.MIN_VALUE];
const MAX_MEMBERS = 4;
const TRIES = 100;

export function randomObject(random: Random, depth = 3): JsonObject {
  const count = random.below(MAX_MEMBERS);
  // As JSON has it: `__proto__` is a key like any other.
  return Object.fromEntries(
    Array.from({ length: count }, () => [
      `${random.pick(oddTexts)}${random.pick(['', 'k'])}`,
      randomValue(random, depth - 1),
    ]),
  );
}

export function randomValue(random: Random, depth: number): JsonValue {
  switch (random.below(depth > 0 ? 6 : 4)) {
    case 0:
      return random.pick(oddTexts);
    case 1:
      return random.pick(oddNumbers);
    case 2:
      return random.chance(2);
    case 3:
      return null;
    case 4:
      return Array.from({ length: random.below(MAX_MEMBERS) }, () => randomValue(random, depth - 1));
    default:
      return randomObject(random, depth - 1);
  }
}

/** Another object: one place in it is changed, added or gone. */
export function otherObject(random: Random, given: JsonObject): JsonObject {
  for (let tries = 0; tries < TRIES; tries++) {
    const changed = changedObject(random, given);
    if (canonicalJson(changed) !== canonicalJson(given)) return changed;
  }
  return { ...given, another: true };
}

function changedObject(random: Random, given: JsonObject): JsonObject {
  const entries = Object.entries(given);
  const at = random.below(entries.length + 1);
  const [key, value] = entries[at] ?? ['added', null];
  const others = entries.filter((_, index) => index !== at);
  switch (random.below(4)) {
    case 0:
      return Object.fromEntries(others);
    case 1:
      return Object.fromEntries([...others, [`${key}${random.pick([' ', '\u200b', '.'])}`, value]]);
    case 2:
      return Object.fromEntries([...others, [key, randomValue(random, 2)]]);
    default:
      return Object.fromEntries([...others, [key, changedValue(random, value)]]);
  }
}

/** What looks like the same. */
function changedValue(random: Random, value: JsonValue): JsonValue {
  if (isJsonObject(value)) return changedObject(random, value);
  if (Array.isArray(value)) return random.chance(2) ? [...value, null] : value.slice(1);
  if (typeof value === 'string')
    return random.pick([`${value}\u200b`, value.toUpperCase(), value.normalize('NFD'), [value]]);
  if (typeof value === 'number') return random.pick<JsonValue>([-value, value + 1, String(value)]);
  return random.pick<JsonValue>([String(value), [], {}, value === null ? false : null]);
}

/** The same value, written in another order. */
export function reordered(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(reordered);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, reordered(member)]),
  );
}
