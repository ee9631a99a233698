export { BackendError, type ChatBackend, type ChatRequest } from './chat/backend.ts';
export { compileLimits, type LimitName, type Limits, limitSpecs } from './config/limits.ts';
export { ModuleError } from './guest/module-error.ts';
export { type RunOptions, type RunReason, type RunResult, runGuest } from './guest/run.ts';
