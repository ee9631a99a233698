import { type JsonValue, parseJson } from '../../base/json.ts';
import { didYouMean } from '../../base/nearest-key.ts';
import { splitOnce } from '../../base/split-once.ts';
import type { DiagnosisFlags } from '../../doctor/diagnosis.ts';
import type { CallKind } from '../../protocol/call-kind.ts';
import { isMcpParam, mcpParamKeys } from '../../protocol/mcp-params.ts';
import { parseFlags, wholeNumber } from '../parse-flags.ts';
import { flagWords, registryOptions } from '../run/registry-flags.ts';
import { UsageError } from '../usage-error.ts';

const shared = {
  'task-config': { type: 'string' },
  config: { type: 'string' },
  'mcp-dir': { type: 'string' },
  strict: { type: 'boolean' },
  sms: { type: 'string' },
  'sms-token': { type: 'string' },
  'sms-token-file': { type: 'string' },
  'sms-ca': { type: 'string' },
  param: { type: 'string', multiple: true },
  'timeout-ms': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

const doctorOptions = {
  ...shared,
  backend: { type: 'string' },
  script: { type: 'string' },
  'allow-unknown-imports': { type: 'boolean' },
  'no-model': { type: 'boolean' },
  offline: { type: 'boolean' },
} as const;

const explainOptions = { ...shared, kind: { type: 'string' }, connect: { type: 'boolean' } } as const;

/** What both commands look at: a task, its registry, and a session with these parameters. */

export interface DoctorFlags extends DiagnosisFlags {
  readonly wasm: string;
  readonly backend: string | undefined;
  readonly script: string | undefined;
  readonly allowUnknownImports: boolean;
  /** Whether a model may be asked, and whether servers may be started. */
  readonly askModel: boolean;
  readonly connect: boolean;
}

export interface ExplainFlags extends DiagnosisFlags {
  readonly server: string;
  readonly kind: CallKind;
  /** Of a resource its uri. */
  readonly tool: string;
  /** Whether the server is asked if it has the tool. */
  readonly connect: boolean;
}

const DEFAULT_TIMEOUT_MS = 60_000;
const MAX_TIMEOUT_MS = 600_000;

const doctorUsage = 'usage: spear doctor task.wasm --task-config FILE [--mcp-dir DIR | --sms HOST:PORT]';
const explainUsage =
  'usage: spear explain SERVER NAME --task-config FILE [--kind KIND] [--mcp-dir DIR | --sms HOST:PORT]';

export function parseDoctorFlags(argv: readonly string[]): DoctorFlags | 'help' {
  const { values, positionals } = parseFlags(argv, doctorOptions, 'spear doctor');
  if (values.help) return 'help';
  const [wasm, ...more] = positionals;
  if (wasm === undefined || more.length > 0) throw new UsageError(doctorUsage);
  const offline = values.offline ?? false;
  return {
    ...common(values),
    wasm,
    backend: values.backend,
    script: values.script,
    allowUnknownImports: values['allow-unknown-imports'] ?? false,
    askModel: !offline && !values['no-model'],
    connect: !offline,
  };
}

export function parseExplainFlags(argv: readonly string[]): ExplainFlags | 'help' {
  const { values, positionals } = parseFlags(argv, explainOptions, 'spear explain');
  if (values.help) return 'help';
  const [server, tool, ...more] = positionals;
  if (server === undefined || tool === undefined || more.length > 0) throw new UsageError(explainUsage);
  if (values['task-config'] === undefined) throw new UsageError(`which task? ${explainUsage}`);
  const kind = kinds.find((known) => known === (values.kind ?? 'tool'));
  if (kind === undefined) throw new UsageError(`--kind ${values.kind}: must be ${kinds.join(', ')}`);
  const connect = values.connect ?? false;
  if (connect && kind !== 'tool') throw new UsageError('--connect asks for tools only: leave it out, or --kind');
  return { ...common(values), server, kind, tool, connect };
}

const kinds: readonly CallKind[] = ['tool', 'resource', 'prompt'];

type SharedValues = {
  readonly [Name in keyof typeof shared]?:
    | ((typeof shared)[Name]['type'] extends 'boolean' ? boolean : Name extends 'param' ? string[] : string)
    | undefined;
};

function common(values: SharedValues): DiagnosisFlags {
  return {
    taskConfig: values['task-config'],
    config: values.config,
    registry: registryOptions({
      mcpDir: values['mcp-dir'],
      strict: values.strict ?? false,
      sms: values.sms,
      smsToken: values['sms-token'],
      smsTokenFile: values['sms-token-file'],
      smsCa: values['sms-ca'],
      requireRegistry: false,
    }),
    words: flagWords,
    params: (values.param ?? []).map(parseParam),
    timeoutMs: wholeNumber('timeout-ms', values['timeout-ms'], { min: 1, max: MAX_TIMEOUT_MS }) ?? DEFAULT_TIMEOUT_MS,
    json: values.json ?? false,
  };
}

function parseParam(text: string): [string, JsonValue] {
  const [key, json] = splitOnce(text, '=');
  const example = `for example --param 'mcp.server_ids=["fs"]'`;
  if (json === null || !isMcpParam(key)) {
    const hint = isMcpParam(key) ? undefined : didYouMean(key, mcpParamKeys);
    if (hint !== undefined) throw new UsageError(`--param ${key}: ${hint}`);
    throw new UsageError(`--param ${key}: expected KEY=JSON with a key of the session's MCP policy, ${example}`);
  }
  const value = parseJson(json);
  if (value === undefined) throw new UsageError(`--param ${key}: what follows the = is not JSON, ${example}`);
  return [key, value];
}
