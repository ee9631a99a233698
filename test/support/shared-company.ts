import { CancellationScope } from '../../src/runtime/guest/cancellation-scope.ts';
import type { Output } from '../../src/runtime/guest/hostcalls/output.ts';
import { GuestYieldPoints, ThreadScheduler } from '../../src/runtime/guest/scheduler.ts';
import { preemptionWords } from '../../src/runtime/port/guest-spec.ts';
import { compileLimits } from '../../src/runtime/port/limits.ts';
import { PREEMPTION_MODULE, type Turns } from '../../src/runtime/port/preemption.ts';
import { boundMemory } from '../../src/runtime/wasm/bound-memory.ts';
import { addYieldPoints } from '../../src/runtime/wasm/preemption/add-yield-points.ts';
import { forwarderModule } from './forwarder.ts';

const GUEST = 1;
const modules = new Map<number, { readonly module: WebAssembly.Module; readonly turns: Turns }>();

/** The guest is suspended and goes on at once: the host of these tests is in the same thread, and would act meanwhile. */
class PromptTurns extends ThreadScheduler {
  override async next(): Promise<void> {}
}

/** Environment of a guest on a shared thread: its cancellation scope and the source of its deadline. */
export class SharedCompany {
  readonly scope = new CancellationScope({ resumed: () => {}, suspended: () => {}, closed: () => {} });
  readonly #memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  readonly #turns: GuestYieldPoints;

  constructor(output: Output, turnMs: number) {
    this.#turns = new GuestYieldPoints(new PromptTurns(this.#memory), GUEST, this.scope, [output], turnMs);
  }

  /** The guest gives way at the next place where it looks. */
  timeIsUp(): void {
    Atomics.store(new Int32Array(this.#memory.buffer), preemptionWords.yieldRequested, 1);
  }

  forwarder(pages: number): { readonly module: WebAssembly.Module; readonly imports: WebAssembly.Imports } {
    const { module, turns } = modules.get(pages) ?? turned(pages);
    modules.set(pages, { module, turns });
    return { module, imports: { [PREEMPTION_MODULE]: this.#turns.imports(turns.memory) } };
  }
}

function turned(pages: number): { readonly module: WebAssembly.Module; readonly turns: Turns } {
  const turns = addYieldPoints(boundMemory(forwarderModule(pages), compileLimits()), true);
  if (turns === null) throw new Error('the forwarder has no code');
  return { module: new WebAssembly.Module(turns.bytes), turns };
}
