export { ModuleError } from './abi/guest-module.ts';
export { type AuditEvent, type AuditLine, type AuditTrail, noAudit } from './audit/event.ts';
export { type AuditLog, type AuditLogOptions, openAuditLog } from './audit/log.ts';
export { BackendError, type ChatBackend, type ChatRequest } from './chat/backend.ts';
export { componentCacheDirectory } from './config/cache-directory.ts';
export type {
  ApprovalAnswer,
  ApprovalCause,
  ApprovalDecider,
  ApprovalDecision,
  ApprovalRequest,
  DefinitionChange,
  ToolDefinition,
} from './mcp/approval/decider.ts';
export type { FromSchema } from './mcp/schema-types.ts';
export { ToolEvents, type ToolInvocation, type ToolListener } from './mcp/tool-events.ts';
export {
  McpToolbox,
  type ToolboxOptions,
  type ToolboxResult,
  type ToolboxServer,
  type ToolboxTool,
} from './mcp/toolbox.ts';
export { createMetrics, type Metrics } from './metrics/metrics.ts';
export type { EgressOptions } from './pool/egress.ts';
export {
  McpConnectionError,
  McpError,
  McpSchemaError,
  McpTimeoutError,
  McpToolError,
  type ToolError,
} from './pool/errors.ts';
export { compileLimits, type LimitName, type Limits, limitSpecs } from './protocol/limits.ts';
export { type RunReason, type RunResult, runGuest } from './run/run-guest.ts';
export type { RunOptions } from './run/run-options.ts';
