import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, vi } from 'vitest';
import { MODERN_VERSION } from '../../../../src/agent/mcp/client/open-session.ts';
import { McpPool } from '../../../../src/agent/mcp/client/pool.ts';
import type { PoolLimitName, PoolLogEntry } from '../../../../src/agent/mcp/client/pool-options.ts';
import type { PoolCall } from '../../../../src/agent/mcp/client/server-call.ts';
import type { ToolOutput } from '../../../../src/agent/mcp/client/tool-result.ts';
import type { JsonObject } from '../../../../src/base/json.ts';
import type { Waiting } from '../../../../src/base/listeners.ts';
import type { StdioPolicy } from '../../../../src/config/host/host-config.ts';
import type { RegistryChange } from '../../../../src/registry-client/snapshot.ts';
import type { EgressOptions } from '../../../../src/server/egress/egress.ts';
import type { McpServerRecord } from '../../../../src/server/records/server.ts';
import { createSecretSource, type SecretSource } from '../../../../src/server/secrets/secret-file.ts';
import { eraEnvironment, serverEra } from '../../../support/server-era.ts';

import { ended } from './ended-call.ts';

export { fixture, httpRecord, npmServer, stdioRecord } from './pool-records.ts';

/** A directory that goes away with the test. */
export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'spear-pool-test-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export interface PoolSample {
  readonly waiting?: Waiting;
  readonly limits?: Partial<Record<PoolLimitName, number>>;
  readonly variables?: Readonly<Record<string, string>>;
  readonly secrets?: SecretSource;
  readonly now?: () => number;
  readonly stateDir?: string;
  readonly sandboxCommand?: string;
  readonly stdio?: StdioPolicy;
  readonly egress?: EgressOptions;
}

/** A pool that is closed at the end of the test. Grace periods are short; nothing that a test waits for depends on them. */
export function openPool(sample: PoolSample = {}): { pool: McpPool; log: PoolLogEntry[]; stateDir: string } {
  const log: PoolLogEntry[] = [];
  const stateDir = sample.stateDir ?? tempDir();
  const policy = { mode: 'user_owned', names: [], paths: [], backendKeyNames: [] } as const;
  const pool = new McpPool(
    {
      stateDir,
      limits: { stdinGraceMs: 200, termGraceMs: 200, ...sample.limits },
      ...(sample.stdio === undefined ? {} : { stdio: sample.stdio }),
      ...(sample.sandboxCommand === undefined ? {} : { sandboxCommand: sample.sandboxCommand }),
      ...(sample.egress === undefined ? {} : { egress: sample.egress }),
    },
    {
      secrets: sample.secrets ?? createSecretSource(policy, sample.variables ?? {}),
      log: (entry) => log.push(entry),
      ...(sample.now === undefined ? {} : { now: sample.now }),
      ...(sample.waiting === undefined ? {} : { waiting: sample.waiting }),
    },
  );
  onTestFinished(async () => {
    await pool.close();
    expect(ofAnotherEra(log)).toEqual([]);
  });
  return { pool, log, stateDir };
}

/** Connections of another era than the test is run in: it would show nothing. */
function ofAnotherEra(log: readonly PoolLogEntry[]): readonly PoolLogEntry[] {
  if (serverEra() === 'legacy') return [];
  return log.filter(({ event, protocolVersion }) => event === 'connected' && protocolVersion !== MODERN_VERSION);
}

/** An answer of the pool, and what its caller can know besides. */
export interface ToolOutcome extends ToolOutput {
  readonly ok: boolean;
  /** Whether the call was handed to the server, which may have acted on it whatever the outcome says. */
  readonly dispatched: boolean;
  /** Of `json`. */
  readonly bytes: number;
  readonly durationMs: number;
}

export async function call(
  pool: McpPool,
  record: McpServerRecord,
  tool: string,
  args: JsonObject = {},
  more: Partial<Omit<PoolCall, 'tool' | 'args'>> & { signal?: AbortSignal } = {},
): Promise<ToolOutcome> {
  const started = performance.now();
  let dispatched = false;
  const beforeDispatch: PoolCall['beforeDispatch'] = (found, sent) => {
    more.beforeDispatch?.(found, sent);
    dispatched = true;
  };
  const { signal, ...asked } = more;
  const output = await ended(pool, record, { tool, args, owner: 'guest-1', ...asked, beforeDispatch }, signal);
  const [ok, bytes] = [output.error === null, Buffer.byteLength(output.json)];
  return { ...output, ok, dispatched, bytes, durationMs: performance.now() - started };
}

interface OutcomeJson {
  readonly content?: readonly { type: string; text: string }[];
  readonly structuredContent?: unknown;
  readonly error?: { code: string; message: string; retryable: boolean };
}

export function parsed(outcome: ToolOutcome): OutcomeJson {
  return JSON.parse(outcome.json) as OutcomeJson;
}

/** The text of a call that must have worked. */
export async function textOf(outcome: ToolOutcome | Promise<ToolOutcome>): Promise<string> {
  const settled = await outcome;
  if (!settled.ok) throw new Error(`the call failed: ${settled.json}`);
  return parsed(settled).content?.[0]?.text ?? '';
}

/** What the registry would announce. */
export function changeOf(change: {
  upserted?: readonly McpServerRecord[];
  deleted?: readonly string[];
}): RegistryChange {
  const { upserted = [], deleted = [] } = change;
  const servers = new Map(upserted.map((record) => [record.server_id, record]));
  const snapshot = { epoch: 'test', revision: 1, records: servers };
  return { snapshot, upserted: [...servers.keys()], deleted };
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** Processes, other than this one, whose environment holds the text. A zombie has none. */
export function processesWith(text: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      if (!Number.isInteger(pid) || pid === process.pid) return false;
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(text);
      } catch {
        return false;
      }
    });
}

/** For what no event tells: files, processes, and what another process is about to do. */
export function eventually(check: () => void | Promise<void>, timeoutMs = 45_000): Promise<void> {
  return vi.waitFor(check, { timeout: timeoutMs, interval: 10 });
}

export interface HttpServerSample {
  readonly child: ChildProcess;
  readonly port: number;
  readonly url: (path: string) => string;
}

/** An HTTP fixture or npm server in a process of its own; killed at the end of the test. */
export async function startHttp(
  script: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<HttpServerSample> {
  const child = spawn(process.execPath, [script, ...args], {
    env: { ...eraEnvironment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  child.stderr.setEncoding('utf8');
  child.stdout.setEncoding('utf8');
  let output = '';
  const port = await new Promise<number>((resolve, reject) => {
    const look = (chunk: string) => {
      output += chunk;
      const match = /(?:^|port )(\d+)/m.exec(output);
      if (match !== null) resolve(Number(match[1]));
    };
    child.stdout.on('data', look);
    child.stderr.on('data', look);
    child.once('exit', () => reject(new Error(`the server ended: ${output}`)));
  });
  return { child, port, url: (path) => `http://127.0.0.1:${port}${path}` };
}
