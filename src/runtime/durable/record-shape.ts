import { isJsonObject, type JsonObject } from '../../base/json.ts';
import { isEventsText } from '../port/journal-events.ts';
import type { JournalRecord } from './journal.ts';

type Check = (value: unknown) => boolean;

const text: Check = (value) => typeof value === 'string';
const count: Check = (value) => Number.isSafeInteger(value) && Number(value) >= 0;
const flag: Check = (value) => typeof value === 'boolean';
const list: Check = (value) => Array.isArray(value);
const texts: Check = (value) => Array.isArray(value) && value.every(text);
const variables: Check = (value) => isJsonObject(value) && Object.values(value).every(text);
const module: Check = (value) =>
  isJsonObject(value) && text(value.sha256) && (value.path === null || typeof value.path === 'string');

/** What whoever reads a record relies on, and must not find out by a crash: a journal may have been written by hand. */
const shapes: Readonly<Record<JournalRecord['t'] | 'header', Readonly<Record<string, Check>>>> = {
  header: {
    run: text,
    started: count,
    spear: text,
    v8: text,
    arch: text,
    wasm: module,
    args: texts,
    env: variables,
    limits: isJsonObject,
    verbose: flag,
    unknown_imports: flag,
    streams: flag,
    policy: isJsonObject,
  },
  guest: { e: isEventsText },
  reply: { call: count, m: list },
  tools: { session: text, params: list, set: count },
  'model.asked': { call: count, n: count },
  'model.answered': { call: count, n: count },
  'tool.started': { ordinal: text, args: text },
  'tool.finished': { ordinal: text, result: text },
  approval: { event: isJsonObject },
  output: { fd: (value) => value === 'stdout' || value === 'stderr', at: count, b: text },
  resumed: { attempt: count },
  end: { reason: (value) => text(value) && value !== '', exit: (value) => value === null || Number.isInteger(value) },
};

/** Whether this version knows records of this kind. */
export const isKnownKind = ({ t }: JsonObject): boolean => typeof t === 'string' && Object.hasOwn(shapes, t);

/** The field of a record that is missing or of another kind; null: none is. Precondition: {@link isKnownKind}. */
export function wrongField(record: JsonObject): string | null {
  const shape = shapes[record.t as keyof typeof shapes];
  return Object.keys(shape).find((field) => shape[field]?.(record[field]) !== true) ?? null;
}
