import { type JsonValue, parseJson } from '../../base/json.ts';
import { splitOnce } from '../../base/text.ts';
import { didYouMean } from '../../base/validation.ts';
import { isMcpParam, mcpParamKeys } from '../../runtime/port/mcp-params.ts';
import type { CallKind } from '../../runtime/port/policy-layers.ts';
import { type Call, choice, type FlagValues, flag, number, text } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';
import { configFlag, registryFlagSpecs } from '../run/flags.ts';
import { flagWords, registryOptions } from '../run/registry-flags.ts';
import type { DiagnosisFlags } from './finding.ts';

/** Flags of doctor and explain: a task, its registry, and a session with these parameters. */
const shared = {
  config: configFlag,
  ...registryFlagSpecs,
  param: text('KEY=JSON', 'assume that the guest set this session parameter, such as mcp.server_ids', {
    multiple: true,
  }),
  'timeout-ms': number('MS', 'timeout of each step', { min: 1, max: 600_000, default: 60_000 }),
} as const;

const taskConfigHelp = 'task file, as for spear-run';

export const doctorFlags = {
  'task-config': text('FILE', taskConfigHelp),
  ...shared,
  backend: text('NAME', 'backend to check, as for spear-run'),
  script: text('FILE', 'scripted model to check, as for spear-run'),
  'allow-unknown-imports': flag('accept unknown imports, as for spear-run'),
  'no-model': flag('send no request to the model'),
  offline: flag('start no server and send no request to the model'),
  json: flag('print one JSON value: ok, and findings with what, status (ok, bad, skipped), text, cause, fix, children'),
} as const;

const kinds = ['tool', 'resource', 'prompt'] as const satisfies readonly CallKind[];

export const explainFlags = {
  'task-config': text('FILE', taskConfigHelp, { required: true }),
  kind: choice(kinds, 'what NAME is; of a resource NAME is its URI', { default: 'tool' }),
  connect: flag('start or connect to the server and check that it has the tool'),
  ...shared,
  json: flag('print one JSON value: callable, server, kind, tool, findings'),
} as const;

type DoctorValues = FlagValues<typeof doctorFlags>;
type ExplainValues = FlagValues<typeof explainFlags>;

export type DoctorFlags = ReturnType<typeof doctorFlagsOf>;
export type ExplainFlags = ReturnType<typeof explainFlagsOf>;

export function doctorFlagsOf({ flags, args: [wasm = ''] }: Call<DoctorValues>) {
  const { backend, script, allowUnknownImports, offline, noModel } = flags;
  const options = { backend, script, allowUnknownImports, askModel: !offline && !noModel, connect: !offline };
  return { ...diagnosisFlags(flags), wasm, ...options };
}

/** @throws UsageError */
export function explainFlagsOf({ flags, args: [server = '', tool = ''] }: Call<ExplainValues>) {
  const { kind, connect } = flags;
  if (connect && kind !== 'tool') throw new UsageError('--connect checks tools only; remove it or --kind');
  return { ...diagnosisFlags(flags), server, tool, kind, connect };
}

function diagnosisFlags(flags: DoctorValues | ExplainValues): DiagnosisFlags {
  const { taskConfig, config, param, timeoutMs, json } = flags;
  const registry = registryOptions({ ...flags, requireRegistry: false });
  return { taskConfig, config, registry, words: flagWords, params: param.map(parseParam), timeoutMs, json };
}

function parseParam(given: string): [string, JsonValue] {
  const [key, json] = splitOnce(given, '=');
  const example = `for example --param 'mcp.server_ids=["fs"]'`;
  if (json === null || !isMcpParam(key)) {
    const hint = isMcpParam(key) ? undefined : didYouMean(key, mcpParamKeys);
    if (hint !== undefined) throw new UsageError(`--param ${key}: ${hint}`);
    throw new UsageError(`--param ${key}: expected KEY=JSON with an mcp.* session parameter, ${example}`);
  }
  const value = parseJson(json);
  if (value === undefined) throw new UsageError(`--param ${key}: the value is not JSON, ${example}`);
  return [key, value];
}
