import type { Readable } from 'node:stream';
import { type AuditTrail, noAudit } from '../audit/event.ts';
import type { ChatBackend } from '../chat/backend.ts';
import type { ApprovalDecider } from '../mcp/approval/decider.ts';
import type { GuestMcp } from '../mcp/guest-mcp.ts';
import { ToolEvents } from '../mcp/tool-events.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { compileLimits, type LimitName, type Limits } from '../protocol/limits.ts';
import { newRunId } from './run-id.ts';

export interface RunOptions {
  /** The module, or a promise of it: the guest's thread starts meanwhile. */
  readonly wasm: Uint8Array | Promise<Uint8Array>;
  /** The backend that a session named, or the default one for `undefined`. */
  readonly backend: (name: string | undefined) => Promise<ChatBackend>;
  /** argv, its first entry the program's name. @default ['guest'] */
  readonly args?: readonly string[];
  /** The whole environment of the guest. @default empty */
  readonly env?: Readonly<Record<string, string>>;
  /** @default see limitSpecs */
  readonly limits?: Partial<Record<LimitName, number>>;
  /** File descriptors for the guest's output. @default { stdout: 1, stderr: 2 } */
  readonly output?: { readonly stdout: number; readonly stderr: number };
  /** Opened when the guest first reads; null: an empty input. @default empty */
  readonly stdin?: () => Readable | null;
  /** Whether debug and trace lines of the guest are written. @default false */
  readonly verbose?: boolean;
  /** Whether imports that this host does not have link, to ENOSYS. @default false */
  readonly allowUnknownImports?: boolean;
  /** The directory where compiled components are kept, this user's alone; null: they are compiled on every run. @default null */
  readonly componentCache?: string | null;
  /** Ends the guest. @default never */
  readonly signal?: AbortSignal;
  /** The name of this run in events and in the audit trail. @default a random one */
  readonly run?: string;
  /** MCP as the task has it. @default none */
  readonly mcp?: GuestMcp | null;
  /** Decides about calls of tools that need an approval. @default whoever `mcp` was opened with, else all are denied */
  readonly approve?: ApprovalDecider | null;
  /** @default none */
  readonly audit?: AuditTrail;
  /** Told of every tool invocation. @default nobody */
  readonly events?: ToolEvents;
  /** Instruments that count what the guest does. @default none */
  readonly metrics?: Metrics | null;
  /** Something the person who runs the guest should know, once per text. @default nobody is told */
  readonly onNotice?: (text: string) => void;
}

export type CompiledRunOptions = Readonly<Required<Omit<RunOptions, 'limits'>> & { limits: Limits }>;

export function compileRunOptions(options: RunOptions): CompiledRunOptions {
  return Object.freeze({
    wasm: options.wasm,
    backend: options.backend,
    args: options.args ?? ['guest'],
    env: options.env ?? {},
    limits: compileLimits(options.limits),
    output: options.output ?? { stdout: 1, stderr: 2 },
    stdin: options.stdin ?? (() => null),
    verbose: options.verbose ?? false,
    allowUnknownImports: options.allowUnknownImports ?? false,
    componentCache: options.componentCache ?? null,
    signal: options.signal ?? new AbortController().signal,
    run: options.run ?? newRunId(),
    mcp: options.mcp ?? null,
    approve: options.approve ?? null,
    audit: options.audit ?? noAudit,
    events: options.events ?? new ToolEvents(),
    metrics: options.metrics ?? null,
    onNotice: options.onNotice ?? (() => {}),
  });
}
