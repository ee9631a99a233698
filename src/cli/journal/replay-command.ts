import { visible } from '../../base/text.ts';
import { componentCacheDirectory } from '../../config/directories.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { runGuest } from '../../run/run-guest.ts';
import type { Call } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';
import { runExitCode } from '../run-exit-code.ts';
import type { JournalKeyFlags } from './flags.ts';
import { readWithKey } from './open-journal.ts';

type ReplayFlags = JournalKeyFlags & { readonly wasm: string | undefined };

/** `spear replay FILE`: runs the guest against the recorded results; nothing else runs. */
export async function replayCommand({ flags, args: [file = ''] }: Call<ReplayFlags>): Promise<number> {
  const { read, key } = await readWithKey(file, flags);
  const wasm = flags.wasm ?? read.header.wasm.path;
  if (wasm === null) throw new UsageError(`${file}: the journal does not name its module; pass --wasm MODULE`);
  const say = (text: string) => process.stderr.write(`spear: ${visible(text)}\n`);
  const result = await runGuest({
    wasm,
    journal: { file, mode: 'replay', key },
    componentCache: componentCacheDirectory(processEnvironment),
    onNotice: say,
  });
  if (result.message !== null) say(result.message);
  return runExitCode(result, null);
}
