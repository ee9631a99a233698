export { ModuleError } from './abi/guest-module.ts';
export { type AuditEvent, type AuditLine, type AuditSink, type AuditTrail, noAudit } from './audit/event.ts';
export { type AuditLog, type AuditLogOptions, openAuditLog } from './audit/log.ts';
export type { JsonObject, JsonValue } from './base/json.ts';
export type { Wait, Waiting } from './base/waiting.ts';
export { type AnswerDeltas, type AskedBy, BackendError, type ChatBackend, type ChatRequest } from './chat/backend.ts';
export {
  type OpenedBackend,
  openAiBackend,
  type ScriptOptions,
  scriptedBackend,
  stubBackend,
} from './chat/backends/program-backends.ts';
export type { ScriptTurn } from './chat/backends/script-schema.ts';
export type { ModelEvent } from './chat/model-event.ts';
export { componentCacheDirectory } from './config/cache-directory.ts';
export { ConfigError } from './config/config-error.ts';
export type { OpenAiOptions } from './config/host/openai-options.ts';
export type { TaskInput } from './config/task/task-config.ts';
export { type JudgedJournals, type JudgeOptions, judgeJournals } from './judge/judge-journals.ts';
export type { DifferenceKind, JudgedBy, JudgedRun, RunDifference } from './judge/judgement.ts';
export type {
  ApprovalAnswer,
  ApprovalCause,
  ApprovalDecider,
  ApprovalDecision,
  ApprovalRequest,
  DefinitionChange,
} from './mcp/approval/decider.ts';
export type { ElicitationAnswer, ElicitationDecider, ElicitationRequest } from './mcp/elicitation/decider.ts';
export type { FromSchema } from './mcp/schema-types.ts';
export { ToolEvents, type ToolInvocation, type ToolListener } from './mcp/tool-events.ts';
export {
  McpToolbox,
  type ToolboxOptions,
  type ToolboxResources,
  type ToolboxResult,
  type ToolboxServer,
  type ToolboxTool,
} from './mcp/toolbox.ts';
export { createMetrics, type Metrics } from './metrics/metrics.ts';
export type { Exclusion } from './policy/decision.ts';
export type { ToolDefinition } from './policy/definition-hash.ts';
export type { EffectiveSet } from './policy/effective-set.ts';
export type { EgressOptions } from './pool/egress.ts';
export type { FormField, FormOption } from './pool/elicitation/form.ts';
export type { FormContent, FormValue } from './pool/elicitation/form-values.ts';
export {
  McpConnectionError,
  McpError,
  McpSchemaError,
  McpTimeoutError,
  McpToolError,
  type ToolError,
} from './pool/errors.ts';
export type { RecalledValues } from './protocol/guest-spec.ts';
export { compileLimits, type LimitName, type Limits, limitSpecs } from './protocol/limits.ts';
export type { BackendOption } from './run/choose-backend.ts';
export type { OutputCallback, OutputOption, OutputTarget } from './run/guest-output.ts';
export type { JournalMode, JournalOption } from './run/journal-option.ts';
export { type McpNodeOptions, type McpOptions, type OpenMcp, openMcp } from './run/open-mcp.ts';
export type { RegistryOptions, SmsOptions } from './run/open-registry.ts';
export type { McpLogEntry } from './run/registry-servers.ts';
export { type RunReason, type RunResult, runGuest } from './run/run-guest.ts';
export type { RunMcp } from './run/run-mcp.ts';
export type { RunOptions } from './run/run-options.ts';
export type { Isolation } from './run/run-result.ts';
export { type OpenTask, openTask, runTask, type TaskCheck } from './run/run-task.ts';
export { type ServedMetrics, serveMetrics } from './run/serve-metrics.ts';
export type { TaskOptions, TaskRunOptions } from './run/task-options.ts';
export { GuestThreads, type GuestThreadsOptions, type ThreadState } from './run/threads/guest-threads.ts';
