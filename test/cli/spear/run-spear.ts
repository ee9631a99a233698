import { execFile } from 'node:child_process';
import type { TestSms } from '../../registry/running-sms.ts';
import { builtCommand } from '../../support/built-command.ts';

const entry = builtCommand('spear');
const HANGS_MS = 30_000;

export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** `spear` as a process of its own, to its end. */
export function runSpear(args: readonly string[], env: NodeJS.ProcessEnv = {}, input = ''): Promise<Finished> {
  return new Promise((resolve) => {
    const options = { env: { PATH: process.env.PATH, HOME: '/nowhere', ...env }, timeout: HANGS_MS };
    const child = execFile(process.execPath, [entry, ...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
    child.stdin?.end(input);
  });
}

export const socketOf = (sms: TestSms): string => `unix:${sms.config.files.httpSocket}`;

/** For whom it is run, and where their registry is. */
export const as = (sms: TestSms, token = sms.adminToken): NodeJS.ProcessEnv => ({
  SPEAR_SMS: socketOf(sms),
  SPEAR_SMS_TOKEN: token,
});
