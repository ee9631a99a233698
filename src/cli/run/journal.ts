import { resolve } from 'node:path';
import type { JsonObject } from '../../base/json.ts';
import type { JournalOption } from '../../run/run-options.ts';
import { namedJournalKey } from '../journal/key-flag.ts';
import type { RunFlags } from './flags.ts';

/** Flags that name files: recorded as absolute paths, because a run may be resumed from another directory. */
export const fileFlags = ['taskConfig', 'config', 'script', 'mcpDir', 'smsTokenFile', 'smsCa'] as const;
export const otherFlags = ['backend', 'strict', 'sms', 'requireRegistry', 'approve', 'noCache'] as const;

/** `--journal` and `--resume`. */
export function journalOption(flags: RunFlags): JournalOption | null {
  const { journal, journalSync: sync, resume, wasm: module } = flags;
  if (journal === undefined && resume === undefined) return null;
  const key = namedJournalKey(flags.journalKey) ?? undefined;
  if (resume !== undefined) return { file: resume, mode: 'resume', sync, key, module };
  return { file: journal ?? '', sync, key, module, command: commandOf(flags) };
}

function commandOf(flags: RunFlags): JsonObject {
  const files = fileFlags.map((name) => [name, flags[name] === undefined ? null : resolve(flags[name])]);
  const others = otherFlags.map((name) => [name, flags[name] ?? null]);
  return Object.fromEntries([...files, ...others]);
}
