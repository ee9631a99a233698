import type { JsonValue } from '../../base/json.ts';
import { UsageError } from '../exit-codes.ts';
import { readWithKey } from '../journal/open-journal.ts';
import type { RunFlags } from './flags.ts';
import { fileFlags, otherFlags } from './journal.ts';

/** Flags of a resumed run: the recorded ones, unless given again. @throws JournalError, UsageError */
export async function withRecordedFlags(flags: RunFlags): Promise<RunFlags> {
  if (flags.resume === undefined) return flags;
  const { journal_bytes: _room, ...limits } = flags.limits;
  const changed =
    flags.guestArgs.length > 0 ? 'arguments' : Object.keys(flags.env).length > 0 ? '--env' : Object.keys(limits)[0];
  if (changed !== undefined) {
    throw new UsageError(
      `--resume ${flags.resume}: cannot be combined with ${changed}; a resumed run keeps its recorded ones`,
    );
  }
  const asked = { journalKey: flags.journalKey, config: flags.config };
  const { command, wasm } = (await readWithKey(flags.resume, asked)).read.header;
  const recorded = (command ?? {}) as Readonly<Record<string, JsonValue | undefined>>;
  const given = Object.fromEntries(
    [...fileFlags, ...otherFlags].map((name) => [name, flags[name] || (recorded[name] ?? undefined)]),
  );
  const module = flags.wasm === '' ? wasm.path : flags.wasm;
  if (module === null)
    throw new UsageError(`--resume ${flags.resume}: the journal does not name its module; pass it as FILE.wasm`);
  return { ...flags, ...given, wasm: module } as RunFlags;
}
