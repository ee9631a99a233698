import type { JsonValue } from '../../base/json.ts';
import { readWithKey } from '../journal/read-with-key.ts';
import { UsageError } from '../usage-error.ts';
import type { RunFlags } from './flags.ts';
import { fileFlags, otherFlags } from './journal.ts';

/** The flags of a resumed run: those it was started with, but for what is said anew. @throws JournalError, UsageError */
export async function withRecordedFlags(flags: RunFlags): Promise<RunFlags> {
  if (flags.resume === undefined) return flags;
  const { journal_bytes: _room, ...limits } = flags.limits;
  const changed =
    flags.guestArgs.length > 0 ? 'arguments' : Object.keys(flags.env).length > 0 ? '--env' : Object.keys(limits)[0];
  if (changed !== undefined) {
    throw new UsageError(`--resume ${flags.resume}: a run keeps what it began with, and ${changed} would change it`);
  }
  const asked = { 'journal-key': flags.journalKey, config: flags.config };
  const { command, wasm } = (await readWithKey(flags.resume, asked)).read.header;
  const recorded = (command ?? {}) as Readonly<Record<string, JsonValue | undefined>>;
  const given = Object.fromEntries(
    [...fileFlags, ...otherFlags].map((name) => [name, flags[name] || (recorded[name] ?? undefined)]),
  );
  const module = flags.wasm === '' ? wasm.path : flags.wasm;
  if (module === null)
    throw new UsageError(`--resume ${flags.resume}: which module? the journal does not know its file`);
  return { ...flags, ...given, wasm: module } as RunFlags;
}
