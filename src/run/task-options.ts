import type { Waiting } from '../base/waiting.ts';
import type { OptionKeys } from '../config/option-keys.ts';
import type { TaskInput } from '../config/task/task-config.ts';
import type { AuditSink } from '../server/audit/event.ts';
import type { AuditLog } from '../server/audit/log.ts';
import type { BackendOption } from './choose-backend.ts';
import type { McpNodeOptions } from './open-mcp.ts';
import type { RunOptions } from './run-options.ts';

export interface TaskOptions extends Omit<RunOptions, 'backend' | 'mcp' | 'audit'> {
  /** The task's config: a file, or what it would hold. @default a task without any */
  readonly task?: string | TaskInput | undefined;
  /** The host's config file. @default $SPEAR_CONFIG, else this user's own if there is one, else OPENAI_* variables */
  readonly config?: string | undefined;
  /** The model: a backend of the host's config by its name, or one of the program's own. @default the task's, else the config's */
  readonly backend?: string | BackendOption | undefined;
  /** What follows the name of the module and the task's own arguments. @default nothing */
  readonly args?: readonly string[] | undefined;
  /** Added to the task's own. @default nothing */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** They win over the task's own. @default see limitSpecs */
  readonly limits?: RunOptions['limits'];
  /** Where compiled components are kept; null: nowhere. @default this user's own cache, as the commands have it */
  readonly componentCache?: string | null | undefined;
  /** Where the records of MCP servers come from; what it leaves out of the rest is as the host's config says. @default no registry */
  readonly mcp?: McpNodeOptions | undefined;
  /** Called when a wait begins; the returned function is called when the wait is over. @default none */
  readonly waiting?: Waiting | undefined;
  /** The trail, or a log that gives one. @default what [audit] of the host's config says */
  readonly audit?: AuditSink | AuditLog | undefined;
}

/** What one run of an open task may have of its own. */
export type TaskRunOptions = Pick<
  TaskOptions,
  | 'args'
  | 'env'
  | 'output'
  | 'stdin'
  | 'streams'
  | 'signal'
  | 'run'
  | 'approve'
  | 'elicit'
  | 'decidedBy'
  | 'audit'
  | 'events'
  | 'onModelEvent'
  | 'journal'
>;

export const taskOptionKeys: OptionKeys<TaskOptions> = {
  wasm: true,
  task: true,
  config: true,
  backend: true,
  args: true,
  env: true,
  limits: true,
  output: true,
  stdin: true,
  streams: true,
  verbose: true,
  allowUnknownImports: true,
  componentCache: true,
  signal: true,
  run: true,
  mcp: true,
  approve: true,
  elicit: true,
  decidedBy: true,
  submittedBy: true,
  audit: true,
  events: true,
  metrics: true,
  tracing: true,
  trace: true,
  onModelEvent: true,
  journal: true,
  threads: true,
  namespace: true,
  waiting: true,
  chance: true,
  waits: true,
  onDegraded: true,
  onServerWait: true,
  onNotice: true,
};

export const taskRunOptionKeys: OptionKeys<TaskRunOptions> = {
  args: true,
  env: true,
  output: true,
  stdin: true,
  streams: true,
  signal: true,
  run: true,
  approve: true,
  elicit: true,
  decidedBy: true,
  audit: true,
  events: true,
  onModelEvent: true,
  journal: true,
};
