import { statSync } from 'node:fs';
import { AuditFollower } from '../../audit/follow.ts';
import { parseLine, readLines } from '../../audit/reader.ts';
import { rotatedFiles } from '../../audit/rotation.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { UsageError } from '../usage-error.ts';
import { describeLine } from './line-text.ts';
import type { TailFlags } from './tail-flags.ts';

/** Poll interval of a followed file. */
const POLL_MS = 200;

export interface TailOutput {
  readonly print: (text: string) => unknown;
  readonly json: boolean;
  readonly colours: boolean;
}

/** `spear audit tail`; with --follow until stdout closes or a signal ends it. */
export async function tailAudit(path: string, flags: TailFlags, output: TailOutput): Promise<number> {
  try {
    const follower = flags.follow ? new AuditFollower(path) : null;
    for (const text of lastLines(path, flags, follower)) show(text, output);
    if (follower) await follow(follower, flags, output);
    return spearExitCodes.ok;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined || error instanceof UsageError) throw error;
    throw new UsageError(`${path}: cannot be read (${code})`);
  }
}

/** The last matching lines before the follower's start, oldest first. Reads only the files it needs. */
function lastLines(path: string, { lines, matches }: TailFlags, follower: AuditFollower | null): string[] {
  let found: string[] = [];
  let newer = follower !== null;
  for (const file of [...rotatedFiles(path), path].reverse()) {
    const wanted = lines - found.length;
    if (wanted <= 0) break;
    const isStart = newer && statSync(file, { throwIfNoEntry: false })?.ino === follower?.start?.inode;
    if (newer && !isStart) continue;
    newer = false;
    const here: string[] = [];
    for (const { text } of readLines(file, isStart ? follower?.start?.position : undefined)) {
      const line = parseLine(text);
      if (line === null || !matches(line)) continue;
      here.push(text);
      if (here.length >= 2 * wanted + 1_000) here.splice(0, here.length - wanted);
    }
    found = [...here.slice(-wanted), ...found];
  }
  return found;
}

async function follow(follower: AuditFollower, { matches }: TailFlags, output: TailOutput): Promise<void> {
  const gone = new AbortController();
  process.stdout.once('error', () => gone.abort());
  while (!gone.signal.aborted) {
    for (const text of follower.read()) {
      const line = parseLine(text);
      if (line !== null && matches(line)) show(text, output);
    }
    await new Promise<void>((resolve) => setTimeout(resolve, POLL_MS));
  }
  follower.close();
}

function show(text: string, { print, json, colours }: TailOutput): void {
  const line = parseLine(text);
  if (line !== null) print(json ? `${text.trimStart()}\n` : `${describeLine(line, colours)}\n`);
}
