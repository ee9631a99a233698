import { type ChildProcess, execFile } from 'node:child_process';
import { join } from 'node:path';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { projectNode, root, scratch } from '../../e2e/spear-run.ts';

const command = join(root, 'bin/spear.cjs');
const HANGS_MS = 90_000;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A `spear` process with nothing of this machine in its environment but PATH. */
export function spear(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  onStart: (child: ChildProcess) => void = () => {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = {
      env: { PATH: process.env.PATH, HOME: scratch, ...env },
      timeout: HANGS_MS,
      killSignal: 'SIGKILL' as const,
    };
    const child = execFile(projectNode, [command, ...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : null, stdout, stderr });
    });
    child.stdin?.end();
    onStart(child);
  });
}

export interface Diagnosis {
  readonly code: number | null;
  readonly ok: boolean;
  readonly findings: readonly Finding[];
  readonly text: string;
}

/** `spear doctor … --json`. */
export async function doctor(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  onStart?: (child: ChildProcess) => void,
): Promise<Diagnosis> {
  const { code, stdout, stderr } = await spear(['doctor', ...args, '--json'], env, onStart);
  if (stderr !== '') throw new Error(`spear doctor said: ${stderr}`);
  return { code, text: stdout, ...(JSON.parse(stdout) as { ok: boolean; findings: Finding[] }) };
}

/** All findings of a kind, wherever they are in the tree. */
export function all(findings: readonly Finding[], what: string): Finding[] {
  return findings.flatMap((finding) => [...(finding.what === what ? [finding] : []), ...all(finding.children, what)]);
}

export function one(findings: readonly Finding[], what: string): Finding {
  const found = all(findings, what);
  if (found.length !== 1) throw new Error(`${found.length} findings of ${what}: ${JSON.stringify(findings, null, 1)}`);
  return found[0] as Finding;
}
