import { ModuleError } from '../../../src/runtime/abi/guest-module.ts';
import { evaluateGlue } from '../../../src/runtime/guest/component/glue.ts';
import { type TranspileRequest, transpile } from '../../../src/runtime/wasm/component/transpile.ts';
import { readCorpus } from '../binaries/corpus.ts';
import { mutateInThread } from '../binaries/modules-thread.ts';
import { mutate } from '../binaries/mutate.ts';
import { type Effort, Failures, type Finding, type Topic } from '../topic.ts';

const TRANSPILE_MS = 60_000;
/** Those that jco gets even if the time is up: what it makes of them is the proof. */
const FEWEST_TRANSPILED = 10;
/** Admitted ones that jco may get in the end. */
const KEPT = 400;

export const topic: Topic = async (effort) => {
  // One half on each of two threads: neither waits for anything but a processor.
  const modules = mutateInThread(effort, effort.of(900, 500_000));
  const { components } = await readCorpus();
  const admitted: TranspileRequest[] = [];
  const keep = (request: TranspileRequest) => {
    admitted[admitted.length < KEPT ? admitted.length : effort.random.below(KEPT)] = request;
  };
  const judged = await mutate('mutated components', components, effort.of(1_800, 500_000), effort, keep);
  return [await modules, judged, await transpileSome(admitted, effort.of(3, 200), effort)];
};

/** What jco makes of admitted ones is code without a trace of a hostile name, or nothing. */
async function transpileSome(admitted: readonly TranspileRequest[], goal: number, effort: Effort): Promise<Finding> {
  const failures = new Failures();
  let count = 0;
  let valid = 0;
  const mayEnd = () => count >= FEWEST_TRANSPILED && effort.isOver();
  for (; count < Math.min(goal, admitted.length) && !mayEnd(); count++) {
    const request = effort.random.pick(admitted);
    try {
      const { glue } = await transpile(request, TRANSPILE_MS, new AbortController().signal);
      valid++;
      if (glue.includes('SPEAR(')) failures.add('a hostile name stands in the code');
      evaluateGlue(glue);
    } catch (error) {
      if (!(error instanceof ModuleError)) failures.add(String(error));
    }
    effort.progress(count, goal);
  }
  const measured = `${valid} became code, ${count - valid} were no valid components to jco`;
  return { what: 'admitted components to jco', count, lost: 0, crashed: 0, measured, failures: failures.list() };
}
