import { Ajv2020 } from 'ajv/dist/2020.js';
import type { JsonObject } from '../../../src/base/json.ts';
import schema from '../../../src/generated/audit.schema.json' with { type: 'json' };

const validate = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true }).compile(schema);

const known: readonly string[] = schema.oneOf.map(({ title }) => title);
const isOfChain = (event: unknown) => String(event).startsWith('chain.');

/** The kinds of event that the schema knows: of guests, and of the trail itself. */
export const auditEvents = known.filter((event) => !isOfChain(event));
export const chainEvents = known.filter(isOfChain);

/** What the schema says of a line; null if nothing is wrong. */
export function auditProblem(line: unknown): string | null {
  return validate(line) ? null : JSON.stringify(validate.errors);
}

/** The lines of a trail. Throws on one that the schema does not know. */
export function trailLines(text: string): JsonObject[] {
  if (!text.endsWith('\n')) throw new Error('the last line is not whole');
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) => {
      const parsed = JSON.parse(line) as JsonObject;
      const problem = auditProblem(parsed);
      if (problem !== null) throw new Error(`${line}: ${problem}`);
      return parsed;
    });
}

/** The same without those about the trail itself. */
export function auditLines(text: string): JsonObject[] {
  return trailLines(text).filter(({ event }) => !isOfChain(event));
}
