// Jobs as people have them, each with what is wrong, without, and with little of it.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "job.h"

std::map<std::string, std::function<void(Job&, int)>> everyday_cases();
