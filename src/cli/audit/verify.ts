import type { AuditKey } from '../../audit/key.ts';
import { type VerifiedChain, type VerifiedTrail, verifyTrail } from '../../audit/verify.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { UsageError } from '../usage-error.ts';

/** More chains than this are only counted. */
const MAX_CHAINS_SHOWN = 20;

export interface VerifyRequest {
  readonly json: boolean;
  /** What is gone, in whatever order it went, counts as a fault too. */
  readonly strict: boolean;
  readonly keys: readonly AuditKey[];
  readonly print: (text: string) => unknown;
}

/** What is not there any more, or never was, though nothing was tampered with. */
interface Gone {
  /** Rotated files before the first that is there. */
  readonly files: number;
  /** Lines before the first ones of the chains that are there. */
  readonly lines: number;
  /** Chains without an end. */
  readonly open: number;
}

/** `spear audit verify`: 0 if the trail is whole, 1 with the first bad line if it is not. */
export function verifyAudit(files: readonly string[], { json, strict, keys, print }: VerifyRequest): number {
  const trail = read(files, keys);
  const gone = whatIsGone(files, trail);
  const isComplete = gone.files === 0 && gone.lines === 0 && gone.open === 0 && trail.lost === 0;
  const ok = trail.problem === null && (isComplete || !strict);
  if (json) print(`${JSON.stringify({ ok, files, ...toJson(trail, gone) })}\n`);
  else print(`${describe(files, trail, gone).join('\n')}\n`);
  return ok ? spearExitCodes.ok : spearExitCodes.failed;
}

function whatIsGone(files: readonly string[], { chains }: VerifiedTrail): Gone {
  const [, first] = /\.(\d+)$/.exec(files[0] ?? '') ?? [];
  return {
    files: files.length > 1 && first !== undefined ? Number(first) - 1 : 0,
    lines: chains.reduce((sum, { from }) => sum + from, 0),
    open: chains.filter(({ ended }) => !ended).length,
  };
}

function read(files: readonly string[], keys: readonly AuditKey[]): VerifiedTrail {
  try {
    return verifyTrail(files, keys);
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new UsageError(`${path ?? files.join(', ')}: it cannot be read (${code})`);
  }
}

function describe(files: readonly string[], trail: VerifiedTrail, gone: Gone): string[] {
  const { problem, chains } = trail;
  if (problem !== null) return [`${problem.file}:${problem.line}: ${problem.kind}: ${problem.detail}`];
  const where = files.length === 1 ? files[0] : `${files[0]} to ${files.at(-1)}`;
  const shown = chains.slice(-MAX_CHAINS_SHOWN).map(describeChain);
  const more = chains.length - shown.length;
  return [
    `${where}: ${trail.lines} lines in ${chains.length} ${chains.length === 1 ? 'chain' : 'chains'}, nothing changed or missing`,
    ...(more > 0 ? [`  ${more} earlier chains`] : []),
    ...shown,
    ...(gone.files > 0 ? [`  ${gone.files} older files were removed by rotation`] : []),
    ...(gone.lines > 0 ? [`  ${gone.lines} lines of these chains stood in files that are gone`] : []),
    ...(trail.folded > 0
      ? [`  ${trail.folded} events were too many of one kind: the trail has counted them and not written each`]
      : []),
    ...(trail.repaired > 0 ? [`  ${trail.repaired} half lines were repaired and marked`] : []),
    ...(trail.lost > 0
      ? [`  ${trail.lost} lines could not be written at their time, which the trail says itself`]
      : []),
    ...(trail.unchained > 0 ? [`  ${trail.unchained} lines of version 1 have no chain: nothing is known of them`] : []),
  ];
}

function describeChain({ chain, lines, firstTs, lastTs, from, ended, keyId, proved }: VerifiedChain): string {
  const end = ended ? 'ended' : 'open: its process runs, was killed, or its last lines were taken away';
  const start = from === 0 ? '' : `; begins at line ${from}, older files are gone`;
  const key = keyId === null ? '' : `; key ${keyId}${proved ? '' : ', not given: only numbers and links were checked'}`;
  return `  ${chain}  ${firstTs} to ${lastTs}  ${lines} lines, ${end}${start}${key}`;
}

function toJson({ problem, lines, chains, repaired, lost, folded, unchained }: VerifiedTrail, gone: Gone) {
  return {
    problem,
    lines,
    chains: chains.map(({ firstTs, lastTs, keyId, ...chain }) => ({
      ...chain,
      first_ts: firstTs,
      last_ts: lastTs,
      key_id: keyId,
    })),
    repaired,
    lost,
    folded,
    gone_files: gone.files,
    gone_lines: gone.lines,
    open_chains: gone.open,
    unchained,
  };
}
