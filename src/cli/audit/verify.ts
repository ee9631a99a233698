import type { AuditKey } from '../../server/audit/chain.ts';
import { type VerifiedChain, type VerifiedTrail, verifyTrail } from '../../server/audit/verify.ts';
import { spearExitCodes, UsageError } from '../exit-codes.ts';

/** More chains than this are only counted. */
const MAX_CHAINS_SHOWN = 20;

export interface VerifyRequest {
  readonly json: boolean;
  /** Missing lines are a failure even if rotation explains them. */
  readonly strict: boolean;
  readonly keys: readonly AuditKey[];
  readonly print: (text: string) => unknown;
}

/** Missing lines that rotation or a crash explains. */
interface Missing {
  /** Rotated files that were removed. */
  readonly files: number;
  /** Lines of the chains in removed files. */
  readonly lines: number;
  /** Chains without an end. */
  readonly open: number;
}

/** `spear audit verify`: 0 if the audit log is intact, 1 with the first bad line if it is not. */
export function verifyAudit(files: readonly string[], { json, strict, keys, print }: VerifyRequest): number {
  const log = read(files, keys);
  const gone = missingOf(files, log);
  const isComplete = gone.files === 0 && gone.lines === 0 && gone.open === 0 && log.lost === 0;
  const ok = log.problem === null && (isComplete || !strict);
  if (json) print(`${JSON.stringify({ ok, files, ...toJson(log, gone) })}\n`);
  else print(`${describe(files, log, gone).join('\n')}\n`);
  return ok ? spearExitCodes.ok : spearExitCodes.failed;
}

function missingOf(files: readonly string[], { chains }: VerifiedTrail): Missing {
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
    throw new UsageError(`${path ?? files.join(', ')}: cannot be read (${code})`);
  }
}

function describe(files: readonly string[], log: VerifiedTrail, gone: Missing): string[] {
  const { problem, chains } = log;
  if (problem !== null) return [`${problem.file}:${problem.line}: ${problem.kind}: ${problem.detail}`];
  const where = files.length === 1 ? files[0] : `${files[0]} to ${files.at(-1)}`;
  const shown = chains.slice(-MAX_CHAINS_SHOWN).map(describeChain);
  const more = chains.length - shown.length;
  return [
    `${where}: ${log.lines} lines in ${chains.length} ${chains.length === 1 ? 'chain' : 'chains'}, intact`,
    ...(more > 0 ? [`  ${more} earlier chains`] : []),
    ...shown,
    ...(gone.files > 0 ? [`  ${gone.files} older files were removed by rotation`] : []),
    ...(gone.lines > 0 ? [`  ${gone.lines} lines of these chains were in removed files`] : []),
    ...(log.folded > 0 ? [`  ${log.folded} repeated events were counted instead of written`] : []),
    ...(log.repaired > 0 ? [`  ${log.repaired} incomplete lines were repaired and marked`] : []),
    ...(log.lost > 0 ? [`  ${log.lost} lines were lost when writing failed, as the audit log records`] : []),
    ...(log.unchained > 0 ? [`  ${log.unchained} lines of format 1 have no chain and cannot be verified`] : []),
  ];
}

function describeChain({ chain, lines, firstTs, lastTs, from, ended, keyId, proved }: VerifiedChain): string {
  const end = ended ? 'ended' : 'no end: its process is running or was killed, or its last lines were removed';
  const start = from === 0 ? '' : `; starts at line ${from}, older files were removed`;
  const key =
    keyId === null ? '' : `; key ${keyId}${proved ? '' : ', not given: only sequence numbers and links were checked'}`;
  return `  ${chain}  ${firstTs} to ${lastTs}  ${lines} lines, ${end}${start}${key}`;
}

function toJson({ problem, lines, chains, repaired, lost, folded, unchained }: VerifiedTrail, gone: Missing) {
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
