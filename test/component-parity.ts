/**
 * Tests that a guest of every kind has to pass, by their files. Each is run with a core module, where it stands, and
 * with a component in each of its lanes.
 */
export const sharedTests: Readonly<Record<string, () => Promise<unknown>>> = {
  'agent/chat/hand-back': () => import('./agent/chat/hand-back.test.ts'),
  'agent/chat/send-metrics': () => import('./agent/chat/send-metrics.test.ts'),
  'runtime/abi/chat-params': () => import('./runtime/abi/chat-params.int.test.ts'),
  'agent/chat/tool-choice': () => import('./agent/chat/tool-choice.int.test.ts'),
  'agent/chat/tool-loop': () => import('./agent/chat/tool-loop.int.test.ts'),
  'runtime/guest/hostcalls/calls': () => import('./runtime/guest/hostcalls/calls.int.test.ts'),
  'runtime/guest/hostcalls/descriptors': () => import('./runtime/guest/hostcalls/descriptors.test.ts'),
  'runtime/guest/hostcalls/epoll': () => import('./runtime/guest/hostcalls/epoll.int.test.ts'),
  'runtime/guest/hostcalls/errnos': () => import('./runtime/guest/hostcalls/errnos.e2e.test.ts'),
  'runtime/guest/hostcalls/limits': () => import('./runtime/guest/hostcalls/limits.test.ts'),
  'runtime/guest/hostcalls/log': () => import('./runtime/guest/hostcalls/log.test.ts'),
  'runtime/guest/hostcalls/nonblocking': () => import('./runtime/guest/hostcalls/nonblocking.test.ts'),
  'runtime/guest/hostcalls/streaming': () => import('./runtime/guest/hostcalls/streaming.int.test.ts'),
  'runtime/guest/hostcalls/parse-json': () => import('./runtime/guest/hostcalls/fd.parse-json.test.ts'),
  'agent/mcp/chat': () => import('./agent/mcp/chat.int.test.ts'),
  'agent/mcp/hostcalls': () => import('./agent/mcp/hostcalls.int.test.ts'),
  'agent/mcp/offers': () => import('./agent/mcp/offers.e2e.test.ts'),
  'agent/mcp/once': () => import('./agent/mcp/once.int.test.ts'),
  'agent/mcp/submit': () => import('./agent/mcp/submit.int.test.ts'),
  'agent/mcp/tool-choice': () => import('./agent/mcp/tool-choice.int.test.ts'),
  'agent/mcp/turns': () => import('./agent/mcp/turns.int.test.ts'),
  'agent/mcp/two-hundred': () => import('./agent/mcp/two-hundred.e2e.test.ts'),
  'runtime/guest/core/check-order': () => import('./runtime/guest/core/check-order.test.ts'),
};

/** Folders and files whose tests drive core modules: what they verify a component verifies too, or is listed below. */
export const coreTests: readonly RegExp[] = [
  /^runtime\/guest\/hostcalls\/.*\.test\.ts$/,
  /^runtime\/guest\/core\/.*\.test\.ts$/,
  /^runtime\/guest\/wasi\/.*\.test\.ts$/,
  /^run\/run-(deadline|growth|guest|leaks|limits)(?:\.\w+)?\.test\.ts$/,
  /^run\/memory-growth\.int\.test\.ts$/,
];

/** Requirements that speak of what only a core module has, and why a component cannot verify them. */
export const notApplicable: Readonly<Record<string, string>> = {
  'abi.out-buffer': 'a component has no out-buffers: results are memory of its own allocator',
  'mcp.offers.once': 'a component has no out-buffer that could be too small, so nothing waits for a larger one',
  'abi.pointers': 'a bad pointer ends a component by a trap, as the canonical ABI says: component.pointers',
  'arena.capacity': 'no callbacks, so no memory for them',
  'arena.layout': 'no callbacks, so no memory for them',
  'arena.retry': 'no callbacks, so no memory for them',
  'callback.background': 'no callbacks: the host cannot enter a component that waits; its tools are handed back',
  'callback.depth': 'no callbacks: the host cannot enter a component that waits; its tools are handed back',
  'callback.nested': 'no callbacks: the host cannot enter a component that waits; its tools are handed back',
  'entry.choice': 'the entry of a component is run or wasi:cli/run: component.exit and the tests of its preparation',
  'imports.hostile': 'names of a component are admitted before anything else: the tests of the admission gate',
  'imports.unknown': 'a component that imports what is not there is refused: the tests of the import check',
  'output.full': 'about the writer that all guests share',
  'tool.failure': 'no callbacks, so none that fail: what a tool answers is the component’s own text',
  'tool.output': 'no callbacks: what a tool answers is the component’s own text',
  'tool.table': 'a component has no function table that the host could reach',
  'wasi.fd': 'descriptors of WASI preview 1; a component has streams',
};
