// Before any test of a folder: what it makes for the commands goes when all of them are over.
import '../../e2e/spear-run.ts';
import { dispatchTests } from '../../era-parity.ts';
import { runInNewEra } from '../../support/era-tests.ts';

runInNewEra(dispatchTests);
