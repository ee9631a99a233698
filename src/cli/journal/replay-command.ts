import { visible } from '../../base/visible-text.ts';
import { componentCacheDirectory } from '../../config/cache-directory.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { runGuest } from '../../run/run-guest.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { parseFlags } from '../parse-flags.ts';
import { runExitCode } from '../run-exit-code.ts';
import { UsageError } from '../usage-error.ts';
import { replayHelp } from './help.ts';
import { journalKeyOptions } from './key-flag.ts';
import { readWithKey } from './read-with-key.ts';

const options = {
  wasm: { type: 'string' },
  ...journalKeyOptions,
  help: { type: 'boolean', short: 'h' },
} as const;

/** `spear replay FILE`: the guest lives through its run again, and nobody else does. */
export async function replayCommand(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseFlags(argv, options, 'spear replay');
  if (values.help) {
    process.stdout.write(replayHelp);
    return spearExitCodes.ok;
  }
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0) throw new UsageError('usage: spear replay FILE [--wasm MODULE]');
  const { read, key } = await readWithKey(file, values);
  const wasm = values.wasm ?? read.header.wasm.path;
  if (wasm === null) throw new UsageError(`${file}: which module? it does not know its file; --wasm MODULE names it`);
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
