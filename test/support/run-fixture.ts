import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { ChatBackend } from '../../src/agent/chat/backend.ts';
import { openScriptedBackend } from '../../src/agent/chat/backends/scripted.ts';
import type { GuestMcp } from '../../src/agent/mcp/guest-mcp.ts';
import type { ToolEvents } from '../../src/agent/mcp/tool-events.ts';
import { type RunResult, runGuest } from '../../src/run/run-guest.ts';
import type { JournalOption } from '../../src/run/run-options.ts';
import type { GuestThreads } from '../../src/runtime/host/guest-threads.ts';
import type { LimitName } from '../../src/runtime/port/limits.ts';
import type { AuditSink } from '../../src/server/audit/event.ts';
import type { Metrics } from '../../src/server/telemetry/metrics.ts';

const fixtures = new URL('../../fixtures/', import.meta.url);

export interface FixtureOptions {
  readonly args?: readonly string[];
  /** A script under fixtures/scripts, or a backend. */
  readonly backend?: string | ChatBackend;
  readonly limits?: Partial<Record<LimitName, number>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: () => Readable | null;
  readonly signal?: AbortSignal;
  readonly verbose?: boolean;
  readonly allowUnknownImports?: boolean;
  /** Where compiled components are kept. */
  readonly componentCache?: string;
  readonly run?: string;
  readonly mcp?: GuestMcp;
  readonly audit?: AuditSink;
  readonly events?: ToolEvents;
  readonly metrics?: Metrics;
  readonly journal?: JournalOption;
  /** Guests share these. */
  readonly threads?: GuestThreads;
}

export interface FixtureRun extends RunResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly notices: readonly string[];
}

export const fixtureBytes = (path: string): Promise<Uint8Array> => readFile(new URL(path, fixtures));

/** Runs a module, or a built guest by its path under fixtures/, on a real guest thread, and collects what it wrote. */
export async function runFixture(guest: string | Uint8Array, options: FixtureOptions = {}): Promise<FixtureRun> {
  const folder = mkdtempSync(join(tmpdir(), 'spear-run-'));
  const paths = { stdout: join(folder, 'stdout'), stderr: join(folder, 'stderr') };
  const output = { stdout: openSync(paths.stdout, 'w'), stderr: openSync(paths.stderr, 'w') };
  const backend = await openBackend(options.backend);
  const notices: string[] = [];
  try {
    const { args = [], backend: _named, mcp, ...rest } = options;
    const result = await runGuest({
      ...rest,
      mcp: mcp ? { taskName: null, forRun: () => ({ guest: mcp, close: () => {} }) } : null,
      wasm: typeof guest === 'string' ? fixtureBytes(guest) : guest,
      args: ['guest', ...args],
      backend: async () => backend,
      output,
      onNotice: (text) => notices.push(text),
    });
    return {
      ...result,
      notices,
      stdout: readFileSync(paths.stdout, 'utf8'),
      stderr: readFileSync(paths.stderr, 'utf8'),
    };
  } finally {
    await backend.close();
    for (const fd of Object.values(output)) closeSync(fd);
    rmSync(folder, { recursive: true });
  }
}

async function openBackend(backend: FixtureOptions['backend'] = 'scripts/chat.json'): Promise<ChatBackend> {
  if (typeof backend !== 'string') return backend;
  const text = await readFile(new URL(backend, fixtures), 'utf8');
  return openScriptedBackend('scripted', backend, () => text);
}
