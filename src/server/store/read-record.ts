import { idOf, type RecordKind, type StoreStamps } from '../records/record-kind.ts';

export type ReadRecord<R> = { readonly record: R } | { readonly problem: string };

/** Parsed like any other input: a record of an older version gets the defaults of fields that came later. */
export function readRecord<R extends StoreStamps>(kind: RecordKind<R>, id: string, input: unknown): ReadRecord<R> {
  const parsed = kind.parse(input, { strict: false });
  if (!parsed.ok) {
    const [issue] = parsed.issues;
    return { problem: `${issue?.path ?? ''} ${issue?.message ?? 'is not valid'}`.trim() };
  }
  if (idOf(kind, parsed.record) !== id)
    return { problem: `${kind.idField} does not match the key of the ${kind.name}` };
  return { record: parsed.record };
}

/** The same of its text. */
export function readRecordText<R extends StoreStamps>(kind: RecordKind<R>, id: string, text: string): ReadRecord<R> {
  try {
    return readRecord(kind, id, JSON.parse(text));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // The parser's own message quotes the text, and that may hold a secret.
    return { problem: 'the value is not JSON' };
  }
}

/** What to tell the operator of a record that is left out. */
export function leftOut<R extends StoreStamps>(place: string, kind: RecordKind<R>, id: string, problem: string) {
  return `${place}: the stored ${kind.name} "${id}" cannot be read and is skipped (${problem}): ${kind.repair(id)}`;
}
