import { runSharedTests } from '../../../support/shared-tests.ts';

runSharedTests('fast lane');
