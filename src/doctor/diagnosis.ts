import type { JsonValue } from '../base/json.ts';
import type { RegistryFlags } from '../run/open-registry.ts';

/** What a diagnosis is told: the flags that `spear doctor` and `spear explain` share. */
export interface DiagnosisFlags extends RegistryFlags {
  readonly taskConfig: string | undefined;
  readonly config: string | undefined;
  /** SET_PARAMs that the guest is thought to make. */
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
  /** For each step. */
  readonly timeoutMs: number;
  readonly json: boolean;
}
