/**
 * Bytes of code that a loop executes before V8 looks whether the thread is to end. Its own choice is 13,000,000: a loop
 * whose every round fills or copies megabytes then goes on for minutes or hours after its deadline, and not even the
 * process can exit. With this one it goes on for some hundred rounds. The price is that what is used now and then is
 * optimized too, on threads of V8's own.
 */
const BUDGET = 20_000;

let isSet = false;

/** What is compiled from now on can be ended soon, whatever it does. It holds for the whole process. */
export function endPromptly(): void {
  if (isSet) return;
  isSet = true;
  // Loaded here, while the guest's thread boots: at the start of the process it would hold that up by milliseconds.
  process.getBuiltinModule('node:v8').setFlagsFromString(`--wasm-tiering-budget=${BUDGET}`);
}
