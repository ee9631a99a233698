import { WasmModule } from './wasm-encoder.ts';

/** A module that can run: a memory and a `_start` that does nothing, with whatever else `build` adds before them. */
export function runnable(build: (module: WasmModule) => void = () => {}): Uint8Array {
  const module = new WasmModule();
  build(module);
  module.memory({ min: 1 });
  module.export('memory', 'memory', 0);
  module.export('_start', 'function', module.function([], [], []));
  return module.encode();
}

/** A module whose `run` executes the instructions and gives the exit code. Imports are added by `build`. */
export function running(instructions: readonly number[], build: (module: WasmModule) => void = () => {}): Uint8Array {
  const module = new WasmModule();
  build(module);
  module.memory({ min: 1 });
  module.export('memory', 'memory', 0);
  module.export('run', 'function', module.function([], ['i32'], instructions));
  return module.encode();
}
