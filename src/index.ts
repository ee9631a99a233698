export type {
  ApprovalAnswer,
  ApprovalCause,
  ApprovalDecider,
  ApprovalDecision,
  ApprovalRequest,
  DefinitionChange,
} from './agent/approvals/request.ts';
export {
  type AnswerDeltas,
  type AskedBy,
  BackendError,
  type ChatBackend,
  type ChatRequest,
} from './agent/chat/backend.ts';
export {
  type OpenedBackend,
  openAiBackend,
  type ScriptOptions,
  scriptedBackend,
  stubBackend,
} from './agent/chat/backends/open-backend.ts';
export type { ScriptTurn } from './agent/chat/backends/script-schema.ts';
export type { ModelEvent } from './agent/chat/model-events.ts';
export type { FormContent, FormField, FormOption, FormValue } from './agent/mcp/client/elicitation/form.ts';
export type {
  ElicitationAnswer,
  ElicitationDecider,
  ElicitationRequest,
} from './agent/mcp/client/elicitation/question.ts';
export {
  McpConnectionError,
  McpError,
  McpSchemaError,
  McpTimeoutError,
  McpToolError,
  type ToolError,
} from './agent/mcp/client/errors.ts';
export { ToolEvents, type ToolInvocation, type ToolListener } from './agent/mcp/tool-events.ts';
export type { FromSchema } from './agent/mcp/toolbox.ts';
export {
  McpToolbox,
  type ToolboxOptions,
  type ToolboxResources,
  type ToolboxResult,
  type ToolboxServer,
  type ToolboxTool,
} from './agent/mcp/toolbox.ts';
export type { Exclusion } from './agent/policy/decision.ts';
export type { ToolDefinition } from './agent/policy/definition-hash.ts';
export type { EffectiveSet } from './agent/policy/effective-set.ts';
export type { JsonObject, JsonValue } from './base/json.ts';
export type { Wait, Waiting } from './base/listeners.ts';
export type { DifferenceKind, RunDifference, TestedRun, TestKind } from './cli/replay-tests/outcome.ts';
export { type JournalTestOptions, type TestedJournals, testJournals } from './cli/replay-tests/test-journals.ts';
export { ConfigError } from './config/config-error.ts';
export { componentCacheDirectory } from './config/directories.ts';
export type { OpenAiOptions } from './config/host/openai-options.ts';
export type { TaskInput } from './config/task-config.ts';
export type { BackendOption } from './run/choose-backend.ts';
export { type OpenMcp, openMcp } from './run/open-mcp.ts';
export type { RegistryOptions, SmsOptions } from './run/open-registry.ts';
export type { McpLogEntry } from './run/registry-servers.ts';
export { type RunReason, type RunResult, runGuest } from './run/run-guest.ts';
export type { RunMcp } from './run/run-mcp.ts';
export type {
  JournalMode,
  JournalOption,
  McpNodeOptions,
  McpOptions,
  RunOptions,
  TaskOptions,
  TaskRunOptions,
} from './run/run-options.ts';
export { type OpenTask, openTask, runTask, type TaskCheck } from './run/run-task.ts';
export { type ServedMetrics, serveMetrics } from './run/serve-metrics.ts';
export { ModuleError } from './runtime/abi/guest-module.ts';
export type { OutputCallback, OutputOption, OutputTarget } from './runtime/host/guest-stdio.ts';
export { GuestThreads, type GuestThreadsOptions } from './runtime/host/guest-threads.ts';
export type { Isolation } from './runtime/host/run-result.ts';
export type { ThreadState } from './runtime/host/threads-options.ts';
export type { RecordedValues as RecalledValues } from './runtime/port/guest-spec.ts';
export { compileLimits, type LimitName, type Limits, limitSpecs } from './runtime/port/limits.ts';
export { type AuditEvent, type AuditLine, type AuditSink, type AuditTrail, noAudit } from './server/audit/event.ts';
export { type AuditLog, type AuditLogOptions, openAuditLog } from './server/audit/log.ts';
export type { EgressOptions } from './server/egress/egress.ts';
export { createMetrics, type Metrics } from './server/telemetry/metrics.ts';
