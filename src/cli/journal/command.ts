import { didYouMean } from '../../base/nearest-key.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { UsageError } from '../usage-error.ts';
import { journalHelp } from './help.ts';

/** Loaded when asked for: what one needs costs the others start-up time. */
const verbs: ReadonlyMap<string, () => Promise<(argv: readonly string[]) => Promise<number>>> = new Map([
  ['show', async () => (await import('./show.ts')).showJournal],
  ['verify', async () => (await import('./verify.ts')).verifyJournal],
  ['script', async () => (await import('./script.ts')).scriptJournal],
]);

/** `spear journal …`: nothing of it runs a guest. */
export async function journalCommand(argv: readonly string[]): Promise<number> {
  const [verb, ...rest] = argv;
  if (verb === undefined || verb === '-h' || verb === '--help' || rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(journalHelp);
    return spearExitCodes.ok;
  }
  const load = verbs.get(verb);
  if (load !== undefined) return (await load())(rest);
  const known = [...verbs.keys()];
  throw new UsageError(
    `there is no "journal ${verb}"; ${didYouMean(verb, known) ?? `there are ${known.map((name) => `journal ${name}`).join(', ')}`}`,
  );
}
