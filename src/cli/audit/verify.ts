import { type VerifiedChain, type VerifiedTrail, verifyTrail } from '../../audit/verify.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { UsageError } from '../usage-error.ts';

/** More chains than this are only counted. */
const MAX_CHAINS_SHOWN = 20;

/** `spear audit verify`: 0 if the trail is whole, 1 with the first bad line if it is not. */
export function verifyAudit(
  files: readonly string[],
  { json, print }: { readonly json: boolean; readonly print: (text: string) => unknown },
): number {
  const trail = read(files);
  if (json) print(`${JSON.stringify({ ok: trail.problem === null, files, ...toJson(trail) })}\n`);
  else print(`${describe(files, trail).join('\n')}\n`);
  return trail.problem === null ? spearExitCodes.ok : spearExitCodes.failed;
}

function read(files: readonly string[]): VerifiedTrail {
  try {
    return verifyTrail(files);
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new UsageError(`${path ?? files.join(', ')}: it cannot be read (${code})`);
  }
}

function describe(files: readonly string[], trail: VerifiedTrail): string[] {
  const { problem, chains } = trail;
  if (problem !== null) return [`${problem.file}:${problem.line}: ${problem.kind}: ${problem.detail}`];
  const where = files.length === 1 ? files[0] : `${files[0]} to ${files.at(-1)}`;
  const shown = chains.slice(-MAX_CHAINS_SHOWN).map(describeChain);
  const more = chains.length - shown.length;
  return [
    `${where}: ${trail.lines} lines in ${chains.length} ${chains.length === 1 ? 'chain' : 'chains'}, nothing changed or missing`,
    ...(more > 0 ? [`  ${more} earlier chains`] : []),
    ...shown,
    ...(trail.repaired > 0 ? [`  ${trail.repaired} half lines were repaired and marked`] : []),
    ...(trail.lost > 0
      ? [`  ${trail.lost} lines could not be written at their time, which the trail says itself`]
      : []),
    ...(trail.unchained > 0 ? [`  ${trail.unchained} lines of version 1 have no chain: nothing is known of them`] : []),
  ];
}

function describeChain({ chain, lines, firstTs, lastTs, from, ended }: VerifiedChain): string {
  const end = ended ? 'ended' : 'open: its process runs, was killed, or its last lines were taken away';
  const start = from === 0 ? '' : `; begins at line ${from}, older files are gone`;
  return `  ${chain}  ${firstTs} to ${lastTs}  ${lines} lines, ${end}${start}`;
}

function toJson({ problem, lines, chains, repaired, lost, unchained }: VerifiedTrail) {
  return {
    problem,
    lines,
    chains: chains.map(({ firstTs, lastTs, ...chain }) => ({ ...chain, first_ts: firstTs, last_ts: lastTs })),
    repaired,
    lost,
    unchained,
  };
}
