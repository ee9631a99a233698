import { ModuleError } from '../abi/guest-module.ts';

/**
 * Bytes of code that a loop executes before V8 checks whether the thread is being terminated. V8's default is 13,000,000:
 * a loop that fills or copies megabytes in each iteration then runs for minutes or hours after its deadline, and the
 * process cannot exit. With this budget it runs for some hundred iterations. The price: V8 also optimizes rarely used
 * code, on its own threads.
 */
const BUDGET = 20_000;

let isSet = false;

/** Makes code that is compiled from now on in this process terminate promptly. */
export function enablePromptTermination(): void {
  if (isSet) return;
  isSet = true;
  // Loaded here, while the guest's thread starts: loading it at process start would delay the start by milliseconds.
  process.getBuiltinModule('node:v8').setFlagsFromString(`--wasm-tiering-budget=${BUDGET}`);
}

/** Compiles a module. `subject` names it in the error, such as "the module". @throws ModuleError */
export async function engineCompile(bytes: Uint8Array, subject: string): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes as Uint8Array<ArrayBuffer>);
  } catch (error) {
    const reason = (error as Error).message.replace(/^WebAssembly\.compile\(\): /, '');
    throw new ModuleError(`${subject} does not compile: ${reason}`);
  }
}
