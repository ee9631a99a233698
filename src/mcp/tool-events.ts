/** One tool invocation, whoever ran it. */
export interface ToolInvocation {
  readonly source: 'native' | 'mcp';
  readonly run: string;
  /** The chat or MCP session in the run; null outside of any. */
  readonly session: string | null;
  /** null for a native tool. */
  readonly server: string | null;
  readonly tool: string;
  readonly callId: string;
  /** `ok`, or the code of the error that the model was told. */
  readonly outcome: string;
  readonly durationMs: number;
  /** Of the answer, as the model received it. */
  readonly bytes: number;
}

export type ToolListener = (invocation: ToolInvocation) => void;

/** Who wants to know of tool invocations. */
export class ToolEvents {
  readonly #listeners = new Set<ToolListener>();

  /** Returns the way to stop it. */
  subscribe(listener: ToolListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A listener that throws harms neither the call nor the other listeners. */
  emit(invocation: ToolInvocation): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(invocation);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
